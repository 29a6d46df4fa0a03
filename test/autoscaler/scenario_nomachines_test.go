package autoscaler

import (
	"net/http"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// noMachines reports whether a request creates a Machine. The API server forbids such requests, as it does when an
// object quota is exhausted.
func noMachines(r *http.Request) bool {
	return r.Method == http.MethodPost && lastOf(r.URL.Path) == "machines"
}

func TestReplicasWithoutMachinesAreRemoved(t *testing.T) {
	t.Parallel()
	t.Run("when no Machine can be created, the autoscaler reverts its scale-up exactly once, and scales up again later (CA-C39, CA-C84)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			w.drovers[0].refuses.Store(noMachines)
			p.pods = 5
			w.until(5*time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
			w.until(20*time.Minute, "the client takes the scale-up back", func() bool { return w.replicas(p) == 3 })
			w.run(4 * time.Minute)
			if got := w.replicas(p); got != 3 {
				t.Errorf("the size is %d\n%s", got, w.describe())
			}
			w.run(time.Hour)
			w.neverAbove(5)
			w.drovers[0].refuses.Store(nobody)
			w.endsAt(p, 5)
			w.neverAbove(5)
			if w.checker.deletedNodes > 0 {
				t.Errorf("%d nodes were deleted although all are busy", w.checker.deletedNodes)
			}
		})
	})
	for name, fault := range map[string]func(string, int) outcome{
		"the autoscaler lowers the size by exactly the replicas without Machines (CA-C72)": func(string, int) outcome { return carriedOut },
		"the autoscaler lowers the size by exactly the replicas without Machines although responses to DeleteNodes are lost (CA-C72)": func(m string, n int) outcome {
			if m == "NodeGroupDeleteNodes" && n <= 3 {
				return lost
			}
			return carriedOut
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{})
				w.drovers[0].refuses.Store(noMachines)
				w.resize(p, 6)
				w.wire.faulty(fault)
				smallest := 6
				w.until(40*time.Minute, "three replicas are removed", func() bool {
					smallest = min(smallest, w.replicas(p))
					return w.replicas(p) == 3
				})
				if w.wire.count("NodeGroupDeleteNodes") == 0 {
					t.Error("the client removed no replica, so the test proves nothing")
				}
				w.run(time.Hour)
				if got := min(smallest, w.replicas(p)); got != 3 {
					t.Errorf("the size fell to %d\n%s", got, w.describe())
				}
				w.drovers[0].refuses.Store(nobody)
				w.endsAt(p, 3)
				if machines := w.machinesOf(p); len(machines) != 3 || w.checker.deletedNodes > 0 {
					t.Errorf("%d Machines exist and %d nodes were deleted, want the three original ones and no deletion", len(machines), w.checker.deletedNodes)
				}
			})
		})
	}
}

func TestRevertingAScaleUpKeepsTheMinimumSize(t *testing.T) {
	t.Parallel()
	t.Run("the size stays at the minimum or above when a user and the autoscaler both revert one scale-up (CA-C87)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			// Two nodes exist while the minimum is three; the server of the third Machine never
			// becomes a node.
			p := w.pool(pool{name: "a", pods: 2, join: 10 * time.Minute, lost: lostFrom(3)}, 3, 3, 10)
			w.startDrover(droverOptions{})
			// The client must not order nodes for these two pods, which wait for a moment after their nodes have joined.
			w.until(10*time.Minute, "two pods on two nodes", func() bool { _, nodes, running := w.counts(p); return nodes == 2 && running == 2 })
			w.startClient()
			w.run(5 * time.Minute)
			p.pods = 5
			w.until(time.Hour, "the client orders nodes", func() bool { return w.replicas(p) == 6 })
			// A user reverts a part of the scale-up, and then the autoscaler reverts the whole scale-up.
			w.resize(p, 4)
			smallest := 4
			w.until(40*time.Minute, "the client takes the scale-up back", func() bool {
				smallest = min(smallest, w.replicas(p))
				return w.wire.count("NodeGroupDecreaseTargetSize") > 0
			})
			if got := min(smallest, w.replicas(p)); got < 3 {
				t.Errorf("the size fell to %d, the minimum is 3\n%s", got, w.describe())
			}
			p.lost = lostFrom(1 << 30)
			w.endsAt(p, 5)
			if w.checker.deletedNodes > 0 {
				t.Errorf("%d nodes were deleted although all are busy", w.checker.deletedNodes)
			}
		})
	})
}

func TestAGroupThatTheAutoscalerDoesNotSeeForAWhile(t *testing.T) {
	t.Parallel()
	for name, c := range some(map[string]struct {
		leave, come func(d *v1alpha1.MachineDeployment)
	}{
		"the size of a group meets the demand after the group was paused while its nodes were being created (CA-C18, CA-C30)": {
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationPaused] = "true" },
			func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationPaused) },
		},
		"the size of a group meets the demand after the group had no maximum while its nodes were being created (CA-C18, CA-C30)": {
			func(d *v1alpha1.MachineDeployment) { delete(d.Annotations, v1alpha1.AnnotationsMaxSize[0]) },
			func(d *v1alpha1.MachineDeployment) { d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "10" },
		},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{boot: 5 * time.Minute})
				p.pods = 5
				w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
				w.edit(p, c.leave)
				w.run(30 * time.Minute)
				p.pods = 4
				w.edit(p, c.come)
				w.endsAt(p, 4)
				// The autoscaler forgets its scale-up while the group is not listed, and may request the two nodes again.
				w.neverAbove(7)
			})
		})
	}
}
