package autoscaler

import (
	"testing"
	"time"

	"github.com/drover-project/drover/proto"
)

// withOption holds an annotation that sets an option of a group. The autoscaler's startup time for such a group is zero.
var withOption = map[string]string{"cluster.k8s.io/autoscaling-options-scaledownunneededtime": "10m"}

func TestNodesThatAreNotReadyInGroupsWithAndWithoutAutoscalingOptions(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"no node is requested twice while the nodes of a group without autoscaling options start (CA-C90)":      nil,
		"no node is requested twice while the nodes of a group with an autoscaling option start (CA-C94, F-48)": withOption,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{settle: 2 * time.Minute, annotations: annotations})
				w.controller.delay = 3 * time.Minute
				p.pods = 5
				w.endsAt(p, 5)
				w.neverAbove(5)
			})
		})
	}
	t.Run("drover still reports a node as a member of its group when the node becomes NotReady (CA-C94, F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{annotations: withOption})
			m := w.machinesOf(p)[0]
			w.loseContact(&m)
			w.run(time.Hour)
			if got := w.groupOf(m.Name, *m.Spec.ProviderID); got != p.id() || w.checker.deletedNodes > 0 {
				t.Errorf("the node belongs to group %q, want %q; %d nodes were deleted, want 0", got, p.id(), w.checker.deletedNodes)
			}
		})
	})
	t.Run("a node is not deleted when its start completes just before the DeleteNodes call for it is carried out (CA-C70, F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{annotations: withOption})
			w.controller.dead = true
			p.pods = 4
			w.wire.before = func(method string, _ any) {
				if method == "NodeGroupDeleteNodes" {
					w.controller.dead = false
					w.startAll(p)
				}
			}
			w.until(time.Hour, "the client deletes the node that does not start", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.wire.before = func(string, any) {}
			w.endsAt(p, 4)
			if w.checker.deletedNodes > 0 {
				t.Errorf("%d nodes were deleted although all are busy", w.checker.deletedNodes)
			}
		})
	})
}

func TestNodesThatNeverStartInAGroupWithAutoscalingOptions(t *testing.T) {
	t.Parallel()
	t.Run("the autoscaler gives up nodes that never start, and deletes no working node (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{annotations: withOption})
			w.controller.dead = true
			p.pods = 5
			w.until(30*time.Minute, "both are given up", func() bool { return w.replicas(p) == 3 })
			w.neverAbove(5)
			w.run(2 * time.Hour)
			w.neverAbove(7)
			if _, _, running := w.counts(p); running != 3 {
				t.Errorf("%d pods run, want the 3 that ran before\n%s", running, w.describe())
			}
			w.controller.dead = false
			w.endsAt(p, 5)
		})
	})
	t.Run("the autoscaler gives up both a node that never starts and a server that never joins the cluster (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{annotations: withOption, lost: func(n int) bool { return n == 4 }})
			w.controller.dead = true
			// DecreaseTargetSize fails, so that the late scale-up is not reverted before DeleteNodes finds both
			// instances.
			w.wire.faulty(func(m string, _ int) outcome {
				if m == "NodeGroupDecreaseTargetSize" {
					return refused
				}
				return carriedOut
			})
			p.pods = 5
			w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
			w.until(30*time.Minute, "both are given up", func() bool { return w.replicas(p) == 3 })
			w.wire.endFaults()
			w.controller.dead = false
			w.endsAt(p, 5)
		})
	})
	t.Run("the size of a group whose nodes never start stays at its minimum or above, and another group scales afterwards (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", pods: 3, annotations: withOption}, 3, 3, 5)
			other := w.pool(pool{name: "b"}, 0, 0, 5)
			w.startDrover(droverOptions{})
			w.controller.dead = true
			w.startClient()
			w.run(time.Hour)
			if got := w.replicas(p); got < 3 {
				t.Errorf("the size is %d, the minimum 3", got)
			}
			w.controller.dead = false
			w.until(calm, "three nodes", func() bool { return w.settled(p, 3) })
			other.pods = 2
			w.until(calm, "two nodes of the other group run", func() bool { return w.settled(other, 2) })
		})
	})
	t.Run("the three pods of a group keep running while its rollout waits for a new node that never starts (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{annotations: withOption})
			w.controller.dead = true
			w.roll(p, updateBy(1, 0))
			w.run(2 * time.Hour)
			if _, _, running := w.counts(p); running != 3 {
				t.Errorf("%d of 3 pods run after two hours\n%s", running, w.describe())
			}
			w.controller.dead = false
			w.until(2*calm, "all nodes are new", func() bool { return w.old(p) == 0 && w.settled(p, 3) })
		})
	})
}

// groupOf returns the ID of the group to which a node belongs according to drover.
func (w *world) groupOf(name, providerID string) string {
	answer, err := proto.NewCloudProviderClient(w.wire).NodeGroupForNode(w.ctx, &proto.NodeGroupForNodeRequest{
		Node: &proto.ExternalGrpcNode{Name: name, ProviderID: providerID},
	})
	w.must(err)
	return answer.GetNodeGroup().GetId()
}

// startAll immediately completes the start of every node of a pool.
func (w *world) startAll(p *pool) {
	for _, m := range w.machinesOf(p) {
		if s := w.machines[string(m.UID)]; s != nil && s.node && m.DeletionTimestamp == nil {
			w.settle(&m, s)
		}
	}
	// Wait until the watches have delivered the nodes before the call is carried out.
	time.Sleep(time.Second)
}
