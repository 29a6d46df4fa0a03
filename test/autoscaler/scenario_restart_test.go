package autoscaler

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRestartsDuringScaling(t *testing.T) {
	t.Parallel()
	t.Run("no node is requested twice when drover restarts during a scale-up (CA-C04, CA-C05)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
			w.drovers[0].end()
			w.run(30 * time.Second)
			w.startDrover(droverOptions{})
			w.endsAt(p, 5)
			w.neverAbove(5)
		})
	})
	t.Run("only the nodes that the autoscaler has named are deleted when drover restarts during their removal (CA-C05)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{drain: 10 * time.Minute})
			p.pods = 1
			w.until(time.Hour, "the client removes a node", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.drovers[0].end()
			w.run(time.Minute)
			w.startDrover(droverOptions{})
			w.endsAt(p, 1)
			if w.checker.deletedNodes != 2 {
				t.Errorf("%d nodes were deleted, want 2", w.checker.deletedNodes)
			}
		})
	})
	for name, c := range map[string]struct {
		guard time.Duration
		peak  int
	}{
		"without the restart guard, a restarted autoscaler requests the upcoming nodes twice, and removes the excess (CA-C05)": {0, 7},
		"with the restart guard, a restarted autoscaler requests no node twice (CA-C05)":                                       {15 * time.Minute, 5},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := w.pool(pool{name: "a", pods: 3, boot: 3 * time.Minute}, 0, 3, 10)
				w.startDrover(droverOptions{guard: c.guard})
				w.until(10*time.Minute, "three nodes are busy", func() bool { return w.settled(p, 3) })
				w.startClient()
				w.run(time.Minute)
				p.pods = 5
				w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
				w.restartClient()
				w.endsAt(p, 5)
				if w.checker.peak != c.peak {
					t.Errorf("the size rose to %d, want %d\n%s", w.checker.peak, c.peak, w.describe())
				}
			})
		})
	}
	t.Run("a restarted autoscaler removes the taint ToBeDeleted only from nodes that are not being deleted (CA-C02, CA-C34)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{drain: 20 * time.Minute})
			w.endClient()
			machines := w.machinesOf(p)
			w.checker.excused = true
			w.must(w.admin.Delete(w.ctx, &machines[0]))
			for _, m := range machines[:2] {
				n := readyOf(m.Name, "").Node
				w.must(w.admin.Get(w.ctx, client.ObjectKeyFromObject(n), n))
				w.must((&remover{o: Options{Client: w.typed(), Clock: realClock}}).taint(w.ctx, m.Name))
			}
			w.run(10 * time.Second)
			w.startClient()
			w.run(time.Minute)
			for i, marked := range []bool{true, false} {
				n := readyOf(machines[i].Name, "").Node
				w.must(w.admin.Get(w.ctx, client.ObjectKeyFromObject(n), n))
				if hasTaint(n, TaintToBeDeleted) != marked {
					t.Errorf("node %d: tainted = %v, want %v", i, !marked, marked)
				}
			}
			w.endsAt(p, 3)
		})
	})
}

func TestFailoversBetweenReplicasOfDrover(t *testing.T) {
	t.Parallel()
	// Two replicas of drover run. The watches of the second one, which is not the leader, are late. The field "after" of a
	// case names a method. The next call of this method still goes to the first replica, and all later calls go to the
	// second one. If the field is empty, all calls go to the second replica at once.
	for name, c := range some(map[string]struct {
		after string
		late  time.Duration
		// short is true when the client starts a loop immediately after a loop that changed something, as cluster-autoscaler
		// does.
		short bool
	}{
		"no request is lost in a failover between the calls NodeGroups and NodeGroupForNode (CA-C14, CA-C30)":                                   {"NodeGroups", time.Second, false},
		"no request is lost in a failover between the calls IncreaseSize and TargetSize (CA-C36, CA-C58)":                                       {"NodeGroupIncreaseSize", 200 * time.Millisecond, false},
		"no request is lost in a failover between the call IncreaseSize and the autoscaler's next loop, which follows at once (CA-C36, CA-C58)": {"NodeGroupIncreaseSize", time.Second, true},
		"no request is lost when a drover replica with late watches takes over after the call IncreaseSize (CA-C36, CA-C58)":                    {"NodeGroupIncreaseSize", 2 * time.Second, true},
		"no request is lost in a failover between the calls DeleteNodes and TargetSize (CA-C76)":                                                {"NodeGroupDeleteNodes", time.Second, false},
		"no request is lost in a failover between the call DeleteNodes and the autoscaler's next loop, which follows at once (CA-C76)":          {"NodeGroupDeleteNodes", 2 * time.Second, true},
		"no request is lost in a failover just before the autoscaler's next call (CA-C06)":                                                      {"", time.Second, true},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.clientOptions.NoFrequentLoops = !c.short
				p := withThreeBusyNodes(w, pool{})
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
				w.endsAt(p, 2)
				w.neverAbove(5)
				if w.checker.deletedNodes != 3 {
					t.Errorf("%d nodes were deleted, want 3", w.checker.deletedNodes)
				}
			})
		})
	}
	t.Run("the autoscaler requests each node at most twice when a load balancer alternates between drover's replicas", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.clientOptions.NoFrequentLoops = false
			p := withThreeBusyNodes(w, pool{})
			second := w.startDrover(droverOptions{follower: true})
			w.wire.late(second, 2*time.Second)
			w.wire.alternates("Refresh", w.drovers[0], second)
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { _, nodes, _ := w.counts(p); return nodes >= 5 })
			p.pods = 2
			w.endsAt(p, 2)
			w.neverAbove(7)
		})
	})
}
