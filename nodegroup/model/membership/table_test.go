package membership

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// contents returns a table as a map.
func contents(t Table[[]string]) map[string][]string {
	out := map[string][]string{}
	for key, names := range t.All {
		out[key] = slices.Clone(names)
	}
	return out
}

func TestAChangeOfATableDoesNotAffectItsOlderVersions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := Table[[]string]{}
		want := map[string][]string{}
		for range rapid.IntRange(1, 5).Draw(r, "versions") {
			before, wasBefore := now, contents(now)
			edit := new(Edit)
			for range rapid.IntRange(0, 20).Draw(r, "changes") {
				key := fmt.Sprint("key-", rapid.IntRange(0, 3).Draw(r, "key"))
				name := fmt.Sprint("name-", rapid.IntRange(0, 5).Draw(r, "name"))
				if rapid.Bool().Draw(r, "link") {
					link(&now, edit, key, name)
					if !slices.Contains(want[key], name) {
						want[key] = slices.Sorted(slices.Values(append(slices.Clone(want[key]), name)))
					}
					continue
				}
				unlink(&now, edit, key, name)
				want[key] = slices.DeleteFunc(slices.Clone(want[key]), func(n string) bool { return n == name })
				if len(want[key]) == 0 {
					delete(want, key)
				}
			}
			if diff := cmp.Diff(want, contents(now)); diff != "" {
				r.Fatalf("the new version (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wasBefore, contents(before)); diff != "" {
				r.Fatalf("the older version has changed (-before +after):\n%s", diff)
			}
		}
	})
}

func TestAllValuesOfATableAreFoundWhicheverOfItsPartsComesFirst(t *testing.T) {
	var table Table[int]
	for n := range table.from(0) {
		t.Errorf("an empty table has the key %s", n)
	}
	edit, want := new(Edit), map[string]int{}
	for n := range 20 {
		table.Set(edit, fmt.Sprint(n), n)
		want[fmt.Sprint(n)] = n
	}
	firsts := map[int]bool{}
	for number := range tableParts {
		if diff := cmp.Diff(want, maps.Collect(table.from(uint8(number)))); diff != "" {
			t.Fatalf("from part %d on (-want +got):\n%s", number, diff)
		}
		for _, n := range table.from(uint8(number)) {
			firsts[n] = true
			break
		}
	}
	// Not necessarily all 20 values come first once: when several keys share a part, one of them comes first, in the random order in
	// which Go iterates over a map.
	if len(firsts) < 10 {
		t.Errorf("%d of 20 values come first", len(firsts))
	}
}
