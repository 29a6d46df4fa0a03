package autoscaler

import (
	"testing"
	"time"

	"github.com/drover-project/drover/proto"
)

// withOption are annotations that give a group an option of its own, so that its startup time is zero for the autoscaler.
var withOption = map[string]string{"cluster.k8s.io/autoscaling-options-scaledownunneededtime": "10m"}

func TestOptionsOfAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"CA-C90 a group without options orders once while its nodes start":       nil,
		"CA-C94 a group with an option orders once while its nodes start (F-48)": withOption,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{settle: 2 * time.Minute, annotations: annotations})
				w.controller.delay = 3 * time.Minute
				p.pods = 5
				w.ends(p, 5)
				w.notBeyond(5)
			})
		})
	}
	t.Run("CA-C94 a node that was Running stays in its group when it turns NotReady (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{annotations: withOption})
			m := w.machinesOf(p)[0]
			w.loseContact(&m)
			w.run(time.Hour)
			if got := w.groupOf(m.Name, *m.Spec.ProviderID); got != p.id() || w.judge.gone > 0 {
				t.Errorf("the node belongs to group %q, want %q; %d nodes went, want 0", got, p.id(), w.judge.gone)
			}
		})
	})
	t.Run("CA-C70 a node that starts while the autoscaler gives it up stays (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{annotations: withOption})
			w.controller.dead = true
			p.pods = 4
			w.wire.before = func(method string, _ any) {
				if method == "NodeGroupDeleteNodes" {
					w.controller.dead = false
					w.startAll(p)
				}
			}
			w.until(time.Hour, "a removal of the node that does not start", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.wire.before = func(string, any) {}
			w.ends(p, 4)
			if w.judge.gone > 0 {
				t.Errorf("%d nodes went although all are busy", w.judge.gone)
			}
		})
	})
}

func TestNodesThatNeverStartInAGroupWithOptions(t *testing.T) {
	t.Parallel()
	t.Run("they are given up like servers that never join, and no node that works goes (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{annotations: withOption})
			w.controller.dead = true
			p.pods = 5
			w.until(30*time.Minute, "both are given up", func() bool { return w.replicas(p) == 3 })
			w.notBeyond(5)
			w.run(2 * time.Hour)
			w.notBeyond(7)
			if _, _, running := w.standing(p); running != 3 {
				t.Errorf("%d pods run, want the 3 that ran before\n%s", running, w.describe())
			}
			w.controller.dead = false
			w.ends(p, 5)
		})
	})
	t.Run("they do not keep a server that never joins from being given up with them (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{annotations: withOption, lost: func(n int) bool { return n == 4 }})
			w.controller.dead = true
			// Nothing is taken back when the order is late, so that the removal finds both.
			w.wire.faulty(func(m string, _ int) fate {
				if m == "NodeGroupDecreaseTargetSize" {
					return refused
				}
				return carriedOut
			})
			p.pods = 5
			w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
			w.until(30*time.Minute, "both are given up", func() bool { return w.replicas(p) == 3 })
			w.wire.sound()
			w.controller.dead = false
			w.ends(p, 5)
		})
	})
	t.Run("the size stays at the minimum or above, and other groups go on (F-48)", func(t *testing.T) {
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
			w.until(calm, "two of the other group", func() bool { return w.settled(other, 2) })
		})
	})
	t.Run("a rollout that hangs on one keeps its three pods running (F-48)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{annotations: withOption})
			w.controller.dead = true
			w.roll(p, updateBy(1, 0))
			w.run(2 * time.Hour)
			if _, _, running := w.standing(p); running != 3 {
				t.Errorf("%d of 3 pods run after two hours\n%s", running, w.describe())
			}
			w.controller.dead = false
			w.until(2*calm, "all nodes are new", func() bool { return w.old(p) == 0 && w.settled(p, 3) })
		})
	})
}

// groupOf asks drover which group a node belongs to.
func (w *world) groupOf(name, providerID string) string {
	answer, err := proto.NewCloudProviderClient(w.wire).NodeGroupForNode(w.ctx, &proto.NodeGroupForNodeRequest{
		Node: &proto.ExternalGrpcNode{Name: name, ProviderID: providerID},
	})
	w.must(err)
	return answer.GetNodeGroup().GetId()
}

// startAll lets every node of a pool complete its first start, at once.
func (w *world) startAll(p *pool) {
	for _, m := range w.machinesOf(p) {
		if s := w.machines[string(m.UID)]; s != nil && s.node && m.DeletionTimestamp == nil {
			w.settle(&m, s)
		}
	}
	// Watches bring it before the call is carried out.
	time.Sleep(time.Second)
}
