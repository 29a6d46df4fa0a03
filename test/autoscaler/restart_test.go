package autoscaler

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRestarts(t *testing.T) {
	t.Parallel()
	t.Run("CA-C04 CA-C05 drover starts anew while nodes are on their way, and nothing is ordered twice", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
			w.drovers[0].end()
			w.run(30 * time.Second)
			w.startDrover(droverOptions{})
			w.ends(p, 5)
			w.notBeyond(5)
		})
	})
	t.Run("CA-C05 drover dies in the middle of removals, and exactly the named nodes go", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{drain: 10 * time.Minute})
			p.pods = 1
			w.until(time.Hour, "a removal", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.drovers[0].end()
			w.run(time.Minute)
			w.startDrover(droverOptions{})
			w.ends(p, 1)
			if w.judge.gone != 2 {
				t.Errorf("%d nodes went, want 2", w.judge.gone)
			}
		})
	})
	for name, c := range map[string]struct {
		guard time.Duration
		peak  int
	}{
		"without the guard it orders again what is on its way, and that goes again": {0, 7},
		"with the guard it does not": {15 * time.Minute, 5},
	} {
		t.Run("CA-C05 the client starts anew while nodes are on their way: "+name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.pool(pool{name: "a", pods: 3, boot: 3 * time.Minute}, 0, 3, 10)
				w.startDrover(droverOptions{guard: c.guard})
				w.until(10*time.Minute, "three busy nodes", func() bool { return w.settled(p, 3) })
				w.startClient()
				w.run(time.Minute)
				p.pods = 5
				w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
				w.restartClient()
				w.ends(p, 5)
				if w.judge.peak != c.peak {
					t.Errorf("the size rose to %d, want %d\n%s", w.judge.peak, c.peak, w.describe())
				}
			})
		})
	}
	t.Run("CA-C02 CA-C34 a client that died after its mark takes it back from living nodes, and not from those that go", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{drain: 20 * time.Minute})
			w.endClient()
			machines := w.machinesOf(p)
			w.judge.excused = true
			w.must(w.admin.Delete(w.ctx, &machines[0]))
			for _, m := range machines[:2] {
				n := readyOf(m.Name, "").Node
				w.must(w.admin.Get(w.ctx, client.ObjectKeyFromObject(n), n))
				w.must((&remover{o: Options{Client: w.typed(), Clock: realClock}}).mark(w.ctx, m.Name))
			}
			w.run(10 * time.Second)
			w.startClient()
			w.run(time.Minute)
			for i, marked := range []bool{true, false} {
				n := readyOf(machines[i].Name, "").Node
				w.must(w.admin.Get(w.ctx, client.ObjectKeyFromObject(n), n))
				if hasTaint(n, TaintToBeDeleted) != marked {
					t.Errorf("node %d: marked %v, want %v", i, !marked, marked)
				}
			}
			w.ends(p, 3)
		})
	})
}

func TestFailOver(t *testing.T) {
	t.Parallel()
	// Two replicas serve; the watches of the second, which does not lead, are late. From one call on all go to the second.
	for name, c := range map[string]struct {
		after string
		late  time.Duration
		// short: the client's next loop follows at once when one has done something, as the original's does.
		short bool
	}{
		"CA-C14 CA-C30 between NodeGroups and NodeGroupForNode":                     {"NodeGroups", time.Second, false},
		"CA-C36 CA-C58 between IncreaseSize and TargetSize":                         {"NodeGroupIncreaseSize", 200 * time.Millisecond, false},
		"CA-C36 CA-C58 between IncreaseSize and the next loop, which comes at once": {"NodeGroupIncreaseSize", time.Second, true},
		"CA-C36 CA-C58 the same with watches that are 2 s late":                     {"NodeGroupIncreaseSize", 2 * time.Second, true},
		"CA-C76 between DeleteNodes and TargetSize":                                 {"NodeGroupDeleteNodes", time.Second, false},
		"CA-C76 between DeleteNodes and the next loop, which comes at once":         {"NodeGroupDeleteNodes", 2 * time.Second, true},
		"CA-C06 before the first call of all":                                       {"", time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.clientOptions.NoFrequentLoops = !c.short
				p := busyThree(w, pool{})
				first := w.drovers[0]
				second := w.startDrover(droverOptions{follower: true})
				w.wire.late(second, c.late)
				w.wire.to(first)
				w.run(time.Minute)
				w.wire.switches(c.after, first, second)
				p.pods = 5
				w.until(10*time.Minute, "five nodes", func() bool { return w.settled(p, 5) })
				w.wire.switches(c.after, first, second)
				p.pods = 2
				w.ends(p, 2)
				w.notBeyond(5)
				if w.judge.gone != 3 {
					t.Errorf("%d nodes went, want 3", w.judge.gone)
				}
			})
		})
	}
	t.Run("a balancer that sends every loop to another replica makes the client order twice at most, and what is too much goes again", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.clientOptions.NoFrequentLoops = false
			p := busyThree(w, pool{})
			second := w.startDrover(droverOptions{follower: true})
			w.wire.late(second, 2*time.Second)
			w.wire.alternates("Refresh", w.drovers[0], second)
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { _, nodes, _ := w.standing(p); return nodes >= 5 })
			p.pods = 2
			w.ends(p, 2)
			w.notBeyond(7)
		})
	})
}
