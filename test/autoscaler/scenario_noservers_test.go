package autoscaler

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

// lostFrom returns a function that reports whether the number of a machine is at least first. The servers of these
// machines do not become nodes.
func lostFrom(first int) func(n int) bool { return func(n int) bool { return n >= first } }

func TestServersThatNeverBecomeNodesAreGivenUp(t *testing.T) {
	t.Parallel()
	t.Run("when the autoscaler reverts four new servers because one never becomes a node, drover keeps the other three (CA-C71, CA-C84, CA-C85, CA-C88)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			// Of four requested machines the last one never becomes a node. The client reverts the whole increase.
			p := withThreeBusyNodes(w, pool{lost: func(n int) bool { return n == 7 }})
			p.pods = 7
			w.until(5*time.Minute, "three of the four nodes register", func() bool { _, nodes, _ := w.counts(p); return nodes == 6 })
			w.wire.endFaults()
			w.until(20*time.Minute, "the client takes the whole scale-up back", func() bool { return w.wire.count("NodeGroupDecreaseTargetSize") > 0 })
			w.run(time.Minute)
			if w.wire.count("NodeGroupDeleteNodes") == 0 {
				t.Error("the client did not delete instances from its old list, so the test proves nothing")
			}
			if _, nodes, _ := w.counts(p); nodes < 6 || w.replicas(p) < 6 {
				t.Errorf("%d of 6 nodes are left and the size is %d, want 6 and at least 6", nodes, w.replicas(p))
			}
			w.endsAt(p, 7)
			w.neverAbove(7)
		})
	})
	t.Run("for five pods, the size stays between 3 and 7 while only three servers become nodes, and is 5 once all servers do (CA-C89)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{lost: lostFrom(4)})
			p.pods = 5
			w.run(2 * time.Hour)
			w.neverAbove(7)
			if got := w.replicas(p); got < 3 {
				t.Errorf("the size is %d, want at least 3 for the busy nodes", got)
			}
			p.lost = lostFrom(1 << 30)
			w.endsAt(p, 5)
		})
	})
	t.Run("a server is not deleted when its node registers just before the DeleteNodes call for it is carried out (CA-C70)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{lost: lostFrom(4)})
			p.pods = 4
			// The node registers at the moment at which the client gives up waiting for it.
			w.wire.before = func(method string, request any) {
				r, ok := request.(*proto.NodeGroupDeleteNodesRequest)
				if method != "NodeGroupDeleteNodes" || !ok || r.GetNodes()[0].GetAnnotations()[fakeReason] != reasonUnregistered {
					return
				}
				w.lateJoin(p)
			}
			// DecreaseTargetSize fails, so that the late scale-up is not reverted before DeleteNodes finds the
			// instance.
			w.wire.faulty(func(m string, _ int) outcome {
				if m == "NodeGroupDecreaseTargetSize" {
					return refused
				}
				return carriedOut
			})
			w.until(time.Hour, "the client deletes the instance without a node", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.wire.endFaults()
			w.wire.before = func(string, any) {}
			w.endsAt(p, 4)
			if w.checker.deletedNodes > 0 {
				t.Errorf("%d nodes were deleted although all are busy", w.checker.deletedNodes)
			}
		})
	})
	t.Run("a size that a user has raised falls back to the number of nodes when no new server becomes a node (CA-C86)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{lost: lostFrom(4)})
			w.resize(p, 6)
			w.run(100 * time.Minute)
			w.endsAt(p, 3)
			w.wire.endFaults()
			w.run(time.Hour)
			if n := w.wire.count("NodeGroupDecreaseTargetSize") + w.wire.count("NodeGroupDeleteNodes"); n > 0 {
				t.Errorf("the client still corrects the size: %d calls in an hour", n)
			}
		})
	})
}

// lateJoin immediately registers a node for each of a pool's servers that has no node yet.
func (w *world) lateJoin(p *pool) {
	list := &v1alpha1.MachineList{}
	w.must(w.admin.List(w.ctx, list, client.MatchingLabels{labelPool: p.name}))
	for i := range list.Items {
		m := &list.Items[i]
		if s := w.machines[string(m.UID)]; s != nil && !s.node && !s.server.IsZero() && m.DeletionTimestamp == nil {
			w.join(m, s)
		}
	}
	// Wait until the watches have delivered the node before the call is carried out.
	time.Sleep(time.Second)
}

func TestACloudWithoutCapacity(t *testing.T) {
	t.Parallel()
	t.Run("when the cloud has no capacity for a group, another group grows, and the first group returns to its old size (CA-C69)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{quota: 3})
			other := w.pool(pool{name: "b"}, 0, 0, 10)
			w.run(time.Minute)
			p.flexible, other.flexible = true, true
			p.pods = 5
			w.until(5*time.Minute, "the nodes of the other group register", func() bool { _, nodes, _ := w.counts(other); return nodes == 2 })
			w.run(calm)
			if a, b := w.replicas(p), w.replicas(other); a != 3 || b != 2 {
				t.Errorf("the sizes are %d and %d, want 3 and 2\n%s", a, b, w.describe())
			}
		})
	})
	t.Run("a cluster's only group retries, never shrinks below the number of its nodes, and grows once there is capacity (CA-C69)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{quota: 3})
			p.pods = 5
			w.run(100 * time.Minute)
			if got := w.replicas(p); got < 3 || got > 5 {
				t.Errorf("the size is %d", got)
			}
			p.quota = -1
			w.endsAt(p, 5)
			w.neverAbove(5)
		})
	})
	t.Run("a group at its minimum keeps its replicas although their servers cannot be created (CA-C69)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", pods: 1, quota: 1}, 3, 3, 5)
			w.startDrover(droverOptions{})
			w.startClient()
			w.run(2 * time.Hour)
			if got := w.replicas(p); got != 3 {
				t.Errorf("the size is %d, the minimum 3", got)
			}
			p.quota = -1
			w.endsAt(p, 3)
		})
	})
}

func TestAWatchOfDroverThatDeliversNoEvents(t *testing.T) {
	t.Parallel()
	for resource := range some(map[string]bool{"nodes": true, "machines": true, "machinesets": true, "machinedeployments": true}) {
		t.Run("no busy node is deleted while drover's watch of "+resource+" delivers no event (CA-C13, CA-C115)", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{boot: 2 * time.Minute})
				p.pods = 5
				w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
				w.run(30 * time.Second)
				w.wire.late(w.drovers[0], 24*time.Hour, resource)
				w.run(50 * time.Minute)
				p.pods = 4
				w.run(50 * time.Minute)
				w.wire.late(w.drovers[0], 0, resource)
				w.kube.CutWatches()
				w.endsAt(p, 4)
			})
		})
	}
}
