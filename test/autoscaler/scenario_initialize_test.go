package autoscaler

import (
	"fmt"
	"testing"
	"time"
)

func TestNodesThatAreInitializedLate(t *testing.T) {
	t.Parallel()
	for delay := range some(map[time.Duration]bool{time.Second: true, 10 * time.Second: true, 40 * time.Second: true, 5 * time.Minute: true}) {
		t.Run(fmt.Sprintf("five pods get exactly five nodes when nodes are initialized after %s (F-47)", delay), func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{})
				w.controller.delay = delay
				p.pods = 5
				w.endsAt(p, 5)
				w.neverAbove(5)
			})
		})
	}
	t.Run("the autoscaler requests nodes twice if drover removes the startup taint before a node is initialized, as it formerly did (F-47)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.startsEarly = true
			p := withThreeBusyNodes(w, pool{})
			w.controller.delay = 40 * time.Second
			p.pods = 5
			w.endsAt(p, 5)
			if w.checker.peak < 7 {
				t.Errorf("the size rose to %d, want at least 7: the stand-in does not reproduce the fault\n%s", w.checker.peak, w.describe())
			}
		})
	})
}

func TestNodesThatAreNeverInitialized(t *testing.T) {
	t.Parallel()
	t.Run("for two more pods the autoscaler never requests more than four new nodes at a time, and the three old pods keep running (F-47)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			w.controller.dead = true
			p.pods = 5
			w.run(2 * time.Hour)
			w.neverAbove(7)
			if _, _, running := w.counts(p); running != 3 {
				t.Errorf("%d pods run, want the 3 that ran before\n%s", running, w.describe())
			}
			w.controller.dead = false
			w.endsAt(p, 5)
		})
	})
	t.Run("another group grows when the nodes of the first group are not initialized in time (F-47)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			other := w.pool(pool{name: "b"}, 0, 0, 10)
			w.run(time.Minute)
			p.flexible, other.flexible = true, true
			w.controller.dead = true
			p.pods = 5
			w.run(20 * time.Minute)
			w.controller.dead = false
			w.until(2*calm, "five pods run", func() bool { _, _, running := w.counts(p); return running == 5 && w.total() == 5 })
		})
	})
	for name, early := range map[string]bool{
		"a rollout keeps the three pods of its group running while new nodes are not initialized (F-47)":                              false,
		"a rollout evicts pods too early if drover removes the startup taint before a node is initialized, as it formerly did (F-47)": true,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.startsEarly = early
				p := withThreeBusyNodes(w, pool{})
				w.controller.dead = true
				w.roll(p, updateBy(1, 0))
				w.run(2 * time.Hour)
				_, _, running := w.counts(p)
				if lost := running < 3; lost != early {
					t.Errorf("%d of 3 pods run after two hours\n%s", running, w.describe())
				}
				w.controller.dead = false
				w.until(2*calm, "all nodes are new", func() bool { return w.old(p) == 0 && w.settled(p, 3) })
			})
		})
	}
}
