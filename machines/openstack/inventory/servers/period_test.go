package servers

import (
	"testing"
	"time"
)

func TestPeriod(t *testing.T) {
	flux := func(since time.Duration) *Known {
		return &Known{Row: Row{ID: "x"}, fluxSince: noon.Add(-since)}
	}
	building := func(change func(*Known)) *Known {
		k := flux(time.Second)
		k.Status = StatusBuild
		if change != nil {
			change(k)
		}
		return k
	}
	for name, tc := range map[string]struct {
		server    *Known
		unsettled bool
		mine      bool
		want      time.Duration
	}{
		"CAPI-32 at rest": {&Known{Row: Row{ID: "x"}}, false, true, RestPeriod},
		"in flux":         {flux(time.Second), false, true, FastPeriod},
		"being built, for which nobody waits (F-56)":  {building(nil), false, true, BuildPeriod},
		"being built, and its deletion was asked for": {building(func(k *Known) { k.asked = noon.Add(-time.Second) }), false, true, FastPeriod},
		"being built, and Nova deletes it":            {building(func(k *Known) { k.TaskState = taskDeleting }), false, true, FastPeriod},
		"in flux for so long that it is stuck":        {flux(20 * time.Minute), false, true, RestPeriod},
		"somebody else's":                             {flux(time.Second), false, false, RestPeriod},
		"its deletion was asked for":                  {&Known{Row: Row{ID: "x"}, asked: noon.Add(-time.Second)}, false, true, FastPeriod},
		"gone after that":                             {&Known{Row: Row{ID: "x"}, asked: noon.Add(-time.Second), Gone: true}, false, true, RestPeriod},
		"an open create":                              {&Known{Row: Row{ID: "x"}}, true, true, FastPeriod},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newCache()
			cache.byID["x"] = tc.server
			if got := cache.Period(noon, tc.unsettled, func(*Known) bool { return tc.mine }); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestIsFullDue(t *testing.T) {
	for name, tc := range map[string]struct {
		last      time.Time
		unsettled bool
		want      bool
	}{
		"the first":                     {time.Time{}, false, true},
		"just had one":                  {noon.Add(-time.Minute), false, false},
		"CAPI-34 every ten minutes":     {noon.Add(-FullPeriod), false, true},
		"sooner while a create is open": {noon.Add(-time.Minute), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsFullDue(noon, tc.last, tc.unsettled); got != tc.want {
				t.Fatalf("got %v", got)
			}
		})
	}
}
