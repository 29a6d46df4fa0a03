package persistent

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// contents returns a persistent map as a Go map.
func contents(m Map[Names]) map[string][]string {
	out := map[string][]string{}
	for key, names := range m.All {
		out[key] = slices.Clone(names)
	}
	return out
}

func TestAChangeOfAPersistentMapDoesNotAffectItsOlderVersions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var now Map[Names]
		want := map[string][]string{}
		for range rapid.IntRange(1, 5).Draw(r, "versions") {
			before, wasBefore := now, contents(now)
			for range rapid.IntRange(0, 20).Draw(r, "changes") {
				key := fmt.Sprint("key-", rapid.IntRange(0, 3).Draw(r, "key"))
				name := fmt.Sprint("name-", rapid.IntRange(0, 5).Draw(r, "name"))
				if rapid.Bool().Draw(r, "link") {
					Link(&now, key, name)
					if !slices.Contains(want[key], name) {
						want[key] = slices.Sorted(slices.Values(append(slices.Clone(want[key]), name)))
					}
					continue
				}
				Unlink(&now, key, name)
				want[key] = slices.DeleteFunc(slices.Clone(want[key]), func(n string) bool { return n == name })
				if len(want[key]) == 0 {
					delete(want, key)
				}
			}
			now.Seal()
			if diff := cmp.Diff(want, contents(now)); diff != "" {
				r.Fatalf("the new version (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wasBefore, contents(before)); diff != "" {
				r.Fatalf("the older version has changed (-before +after):\n%s", diff)
			}
		}
	})
}

func TestFromFindsAValueWhicheverOfThePartsOfAPersistentMapItBeginsWith(t *testing.T) {
	var m Map[int]
	if _, ok := m.From(0); ok {
		t.Error("an empty map has a value")
	}
	for n := range 20 {
		m.Set(fmt.Sprint(n), n)
	}
	found := map[int]bool{}
	for number := range mapParts {
		n, ok := m.From(uint8(number))
		if !ok {
			t.Fatalf("there is no value from %d on", number)
		}
		found[n] = true
	}
	// Not necessarily all 20 values are found: when several keys share a part, From returns one of them, in the random order in
	// which Go iterates over a map.
	if got := len(slices.Collect(maps.Keys(found))); got < 10 {
		t.Errorf("%d of 20 values were found", got)
	}
}
