package autoscaler

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

// from says which machines of a pool do not become nodes: those from the nth on.
func from(first int) func(n int) bool { return func(n int) bool { return n >= first } }

func TestServersThatNeverBecomeNodes(t *testing.T) {
	t.Parallel()
	t.Run("CA-C84 CA-C85 CA-C88 a scale-up that is taken back whole costs no node that has come, and CA-C71 what was cancelled is not taken off twice", func(t *testing.T) {
		inWorld(t, func(w *world) {
			// Of four ordered machines the last never comes; the client asks for all four back.
			p := busyThree(w, pool{lost: func(n int) bool { return n == 7 }})
			p.pods = 7
			w.until(5*time.Minute, "three of the four", func() bool { _, nodes, _ := w.standing(p); return nodes == 6 })
			w.wire.sound()
			w.until(20*time.Minute, "the whole order is taken back", func() bool { return w.wire.count("NodeGroupDecreaseTargetSize") > 0 })
			w.run(time.Minute)
			if w.wire.count("NodeGroupDeleteNodes") == 0 {
				t.Error("the client has not named from its old list what was taken back: this shows nothing")
			}
			if _, nodes, _ := w.standing(p); nodes < 6 || w.replicas(p) < 6 {
				t.Errorf("%d nodes are left of 6, and the size is %d", nodes, w.replicas(p))
			}
			w.ends(p, 7)
			w.notBeyond(7)
		})
	})
	t.Run("CA-C89 where nothing ever comes the size does not run away, and the demand is met once it does", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{lost: from(4)})
			p.pods = 5
			w.run(2 * time.Hour)
			w.notBeyond(7)
			if got := w.replicas(p); got < 3 {
				t.Errorf("the size is %d, and 3 nodes are busy", got)
			}
			p.lost = from(1 << 30)
			w.ends(p, 5)
		})
	})
	t.Run("CA-C70 an instance whose node registers while it is being removed stays", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{lost: from(4)})
			p.pods = 4
			// The client waits for the node as long as it may; the moment it gives up, the node comes.
			w.wire.before = func(method string, request any) {
				r, ok := request.(*proto.NodeGroupDeleteNodesRequest)
				if method != "NodeGroupDeleteNodes" || !ok || r.GetNodes()[0].GetAnnotations()[fakeReason] != reasonUnregistered {
					return
				}
				w.lateJoin(p)
			}
			// Nothing is taken back when the order is late, so that the removal finds it.
			w.wire.faulty(func(m string, _ int) fate {
				if m == "NodeGroupDecreaseTargetSize" {
					return refused
				}
				return carriedOut
			})
			w.until(time.Hour, "a removal of what never came", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.wire.sound()
			w.wire.before = func(string, any) {}
			w.ends(p, 4)
			if w.judge.gone > 0 {
				t.Errorf("%d nodes went although all are busy", w.judge.gone)
			}
		})
	})
	t.Run("CA-C86 a size that a person has raised beyond what comes settles", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{lost: from(4)})
			w.resize(p, 6)
			w.run(100 * time.Minute)
			w.ends(p, 3)
			w.wire.sound()
			w.run(time.Hour)
			if n := w.wire.count("NodeGroupDecreaseTargetSize") + w.wire.count("NodeGroupDeleteNodes"); n > 0 {
				t.Errorf("the client is still correcting: %d calls in an hour", n)
			}
		})
	})
}

// lateJoin lets every server of a pool that has no node yet become one, at once.
func (w *world) lateJoin(p *pool) {
	list := &v1alpha1.MachineList{}
	w.must(w.admin.List(w.ctx, list, client.MatchingLabels{labelPool: p.name}))
	for i := range list.Items {
		m := &list.Items[i]
		if s := w.machines[string(m.UID)]; s != nil && !s.node && !s.server.IsZero() && m.DeletionTimestamp == nil {
			w.join(m, s)
		}
	}
	// Watches bring it before the call is carried out.
	time.Sleep(time.Second)
}

func TestACloudThatIsFull(t *testing.T) {
	t.Parallel()
	t.Run("CA-C69 another group is used at once, and the full one is as large as before", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{quota: 3})
			other := w.pool(pool{name: "b"}, 0, 0, 10)
			w.run(time.Minute)
			p.flexible, other.flexible = true, true
			p.pods = 5
			w.until(5*time.Minute, "the other group's nodes", func() bool { _, nodes, _ := w.standing(other); return nodes == 2 })
			w.run(calm)
			if a, b := w.replicas(p), w.replicas(other); a != 3 || b != 2 {
				t.Errorf("the sizes are %d and %d, want 3 and 2\n%s", a, b, w.describe())
			}
		})
	})
	t.Run("CA-C69 a group alone tries again, never shrinks below its nodes, and grows when there is room", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{quota: 3})
			p.pods = 5
			w.run(100 * time.Minute)
			if got := w.replicas(p); got < 3 || got > 5 {
				t.Errorf("the size is %d", got)
			}
			p.quota = -1
			w.ends(p, 5)
			w.notBeyond(5)
		})
	})
	t.Run("CA-C69 at its minimum a group keeps what cannot be made", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", pods: 1, quota: 1}, 3, 3, 5)
			w.startDrover(droverOptions{})
			w.startClient()
			w.run(2 * time.Hour)
			if got := w.replicas(p); got != 3 {
				t.Errorf("the size is %d, the minimum 3", got)
			}
			p.quota = -1
			w.ends(p, 3)
		})
	})
}

func TestAWatchThatHangs(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"nodes", "machines", "machinesets", "machinedeployments"} {
		t.Run("CA-C13 CA-C115 that of "+resource+" stands still while nodes come, and no busy one goes", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{boot: 2 * time.Minute})
				p.pods = 5
				w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
				w.run(30 * time.Second)
				w.wire.late(w.drovers[0], 24*time.Hour, resource)
				w.run(50 * time.Minute)
				p.pods = 4
				w.run(50 * time.Minute)
				w.wire.late(w.drovers[0], 0, resource)
				w.kube.CutWatches()
				w.ends(p, 4)
			})
		})
	}
}
