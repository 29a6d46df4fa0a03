package inventory

import (
	"testing"
	"time"
)

func TestTooMany(t *testing.T) {
	for _, tc := range []struct {
		lost, known int
		want        bool
	}{{3, 3, false}, {4, 4, true}, {3, 20, false}, {4, 20, true}, {4, 39, true}, {4, 40, false}, {10, 100, false}, {11, 100, true}} {
		if got := tooMany(tc.lost, tc.known); got != tc.want {
			t.Errorf("%d of %d: %v", tc.lost, tc.known, got)
		}
	}
}

func TestLosses(t *testing.T) {
	gone := func(before time.Duration) *knownServer { return &knownServer{gone: true, goneAt: noon.Add(-before)} }
	for name, tc := range map[string]struct {
		server *knownServer
		lost   int
		known  int
	}{
		"a living one is known":                  {&knownServer{}, 0, 1},
		"one that is gone is lost":               {gone(time.Minute), 1, 1},
		"one that is missing is lost":            {&knownServer{missing: true}, 1, 1},
		"one that is gone for long is neither":   {gone(time.Hour), 0, 0},
		"one that drover deleted is neither":     {&knownServer{gone: true, goneAt: noon, own: true}, 0, 0},
		"one whose loss was accepted is as well": {&knownServer{gone: true, goneAt: noon, accepted: true}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cache := newServerCache(ownership{testCluster})
			cache.byID["a"] = tc.server
			lost, known := cache.losses(noon, func(*knownServer) bool { return true })
			if len(lost) != tc.lost || known != tc.known {
				t.Fatalf("lost %v of %d", lost, known)
			}
			if lost, known := cache.losses(noon, func(*knownServer) bool { return false }); len(lost)+known != 0 {
				t.Fatal("somebody else's server counts")
			}
		})
	}
}
