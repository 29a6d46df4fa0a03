package autoscaler

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

// calm is a time in which everything that a fault sets off has passed: provision time, back-off, and the removal of what
// nobody needs.
const calm = 90 * time.Minute

// busyThree is a world with one group of three busy nodes that has room for ten, drover and its client.
func busyThree(w *world, p pool) *pool {
	p.name, p.pods = "a", 3
	made := w.pool(p, 0, 3, 10)
	w.startDrover(droverOptions{})
	w.until(10*time.Minute, "three busy nodes", func() bool { return w.settled(made, 3) })
	w.startClient()
	w.run(time.Minute)
	w.judge.peak = 0
	return made
}

// ends: the size is as large as the demand, now and from now on.
func (w *world) ends(p *pool, size int) {
	w.Helper()
	w.until(2*calm, "the size that the demand asks for", func() bool { return w.settled(p, size) })
	w.run(20 * time.Minute)
	if !w.settled(p, size) {
		w.Errorf("the size does not stay at %d\n%s", size, w.describe())
	}
}

// notBeyond: the sizes never added up to more.
func (w *world) notBeyond(size int) {
	w.Helper()
	if w.judge.peak > size {
		w.Errorf("the size rose to %d, want at most %d\n%s", w.judge.peak, size, w.describe())
	}
}

func (w *world) machinesOf(p *pool) []v1alpha1.Machine {
	list := &v1alpha1.MachineList{}
	w.must(w.seen.List(w.ctx, list, client.MatchingLabels{labelPool: p.name}))
	return list.Items
}

// resize is a person with kubectl scale.
func (w *world) resize(p *pool, size int) {
	w.edit(p, func(d *v1alpha1.MachineDeployment) {
		w.judge.allowed += max(0, int(*d.Spec.Replicas)-size)
		d.Spec.Replicas = ptr.To(int32(size))
	})
}

func TestCAC58PodsComeAndGo(t *testing.T) {
	inWorld(t, func(w *world) {
		p := busyThree(w, pool{})
		p.pods = 5
		w.until(5*time.Minute, "five nodes for five pods", func() bool { return w.settled(p, 5) })
		p.pods = 1
		w.ends(p, 1)
		w.notBeyond(5)
		if w.judge.gone != 4 {
			t.Errorf("%d nodes went, want 4", w.judge.gone)
		}
	})
}

// The calls of a steady loop, as they were counted at the original: 2 + 3G + 5N + 7U.
func TestASteadyLoopAsksAsOftenAsTheOriginal(t *testing.T) {
	inWorld(t, func(w *world) {
		busyThree(w, pool{})
		foreign := readyOf("foreign", "").Node
		w.must(w.admin.Create(w.ctx, foreign))
		// The API server has put the taint not-ready on it; the node controller takes that off.
		before := foreign.DeepCopy()
		foreign.Spec.Taints = nil
		w.must(w.admin.Patch(w.ctx, foreign, client.MergeFrom(before)))
		w.run(2 * time.Minute)
		w.wire.sound()
		w.until(time.Minute, "ten loops", func() bool { return w.wire.count("Refresh") == 4 })
		loops := w.wire.count("Refresh")
		for method, want := range map[string]int{
			"NodeGroups": 1, "NodeGroupTargetSize": 3, "NodeGroupForNode": 3 + 7, "NodeGroupGetOptions": 4 * 3, "NodeGroupIncreaseSize": 0,
		} {
			if got := w.wire.count(method); got != loops*want {
				t.Errorf("%s: got %d calls in %d loops, want %d in each", method, got, loops, want)
			}
		}
	})
}

func TestARefreshThatFailsInsteadOfAnyOtherCall(t *testing.T) {
	t.Parallel()
	t.Run("CA-C13 CA-C113 an API server out of reach while nodes are on their way orders nothing twice", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
			d := w.drovers[0]
			d.cut.Store(true)
			w.run(3 * time.Minute)
			calls := proto.NewCloudProviderClient(w.wire)
			if _, err := calls.Refresh(w.ctx, &proto.RefreshRequest{}); err == nil {
				t.Error("Refresh answers although nothing is known any more")
			}
			if got, err := calls.NodeGroups(w.ctx, &proto.NodeGroupsRequest{}); err != nil || len(got.GetNodeGroups()) != 1 {
				t.Errorf("NodeGroups: got %v, %v; the client would forget its order", got, err)
			}
			d.cut.Store(false)
			w.ends(p, 5)
			w.notBeyond(5)
		})
	})
	for name, method := range map[string]string{
		"one that finds no groups at all":                   "NodeGroups",
		"options that cannot be read right after the order": "NodeGroupGetOptions",
	} {
		t.Run("the client orders twice after "+name+", and what is too much goes again", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{boot: 3 * time.Minute})
				p.pods = 5
				failed := false
				w.wire.faulty(func(m string, _ int) fate {
					if failed || m != method || w.wire.calls["NodeGroupIncreaseSize"] != 1 {
						return carriedOut
					}
					failed = true
					return refused
				})
				w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
				w.ends(p, 5)
				w.notBeyond(7)
				if w.judge.peak != 7 {
					t.Errorf("the client did not order twice, as the original would: the size rose to %d", w.judge.peak)
				}
			})
		})
	}
}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	t.Run("CA-C62 an order whose answer is lost is repeated elsewhere, and what is too much goes again", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{})
			w.pool(pool{name: "b"}, 0, 0, 10)
			w.run(time.Minute)
			for _, each := range w.pools {
				each.flexible = true
			}
			w.wire.faulty(func(m string, n int) fate {
				if m == "NodeGroupIncreaseSize" && n == 1 {
					return lost
				}
				return carriedOut
			})
			p.pods = 5
			w.until(10*time.Minute, "the order in either group", func() bool { return w.total() == 7 })
			w.until(2*calm, "as many nodes as pods", func() bool { return w.total() == 5 })
			w.run(20 * time.Minute)
			if got := w.total(); got != 5 {
				t.Errorf("the sizes are %d at the end\n%s", got, w.describe())
			}
			w.notBeyond(7)
		})
	})
	t.Run("CA-C12 CA-C67 CA-C77 a removal whose answer is lost is carried out once", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{})
			w.wire.faulty(func(m string, n int) fate {
				if m == "NodeGroupDeleteNodes" && n <= 2 {
					return lost
				}
				return carriedOut
			})
			p.pods = 1
			w.ends(p, 1)
			if w.judge.gone != 2 {
				t.Errorf("%d nodes went, want 2", w.judge.gone)
			}
		})
	})
	t.Run("a removal that is refused leaves its node", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{})
			w.wire.faulty(func(m string, _ int) fate {
				if m == "NodeGroupDeleteNodes" {
					return refused
				}
				return carriedOut
			})
			p.pods = 1
			w.run(time.Hour)
			if w.judge.gone != 0 || w.replicas(p) != 3 {
				t.Errorf("%d nodes went, the size is %d", w.judge.gone, w.replicas(p))
			}
			w.wire.sound()
			w.ends(p, 1)
		})
	})
	t.Run("CA-C89 a correction whose answer is lost converges", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{lost: func(n int) bool { return n > 3 && n < 6 }})
			w.wire.faulty(func(m string, n int) fate {
				if m == "NodeGroupDecreaseTargetSize" && n <= 2 {
					return lost
				}
				return carriedOut
			})
			p.pods = 5
			w.ends(p, 5)
		})
	})
}
