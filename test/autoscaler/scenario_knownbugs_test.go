package autoscaler

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

// calm is long enough for all consequences of a fault to end: the autoscaler's provisioning time, its back-off, and the
// removal of unneeded nodes.
const calm = 90 * time.Minute

// withThreeBusyNodes starts drover and the client with one group of three busy nodes and a maximum of ten.
func withThreeBusyNodes(w *world, p pool) *pool {
	p.name, p.pods = "a", 3
	made := w.pool(p, 0, 3, 10)
	w.startDrover(droverOptions{})
	w.until(10*time.Minute, "three nodes are busy", func() bool { return w.settled(made, 3) })
	w.startClient()
	w.run(time.Minute)
	w.checker.peak = 0
	return made
}

// endsAt fails the test unless the pool reaches the given size with all of its pods running, and keeps the size for 20 minutes.
func (w *world) endsAt(p *pool, size int) {
	w.Helper()
	w.until(2*calm, "the size meets the demand", func() bool { return w.settled(p, size) })
	w.run(20 * time.Minute)
	if !w.settled(p, size) {
		w.Errorf("the size does not stay at %d\n%s", size, w.describe())
	}
}

// neverAbove fails the test when the sum of all sizes has ever been larger than size since the last reset of the checker's peak.
func (w *world) neverAbove(size int) {
	w.Helper()
	if w.checker.peak > size {
		w.Errorf("the size rose to %d, want at most %d\n%s", w.checker.peak, size, w.describe())
	}
}

func (w *world) machinesOf(p *pool) []v1alpha1.Machine {
	list := &v1alpha1.MachineList{}
	w.must(w.seen.List(w.ctx, list, client.MatchingLabels{labelPool: p.name}))
	return list.Items
}

// resize sets the size of a pool, as a user does with kubectl scale.
func (w *world) resize(p *pool, size int) {
	w.edit(p, func(d *v1alpha1.MachineDeployment) {
		w.checker.allowed += max(0, int(*d.Spec.Replicas)-size)
		d.Spec.Replicas = ptr.To(int32(size))
	})
}

func TestTheSizeFollowsTheDemand_CA_C58(t *testing.T) {
	inWorld(t, func(w *world) {
		p := withThreeBusyNodes(w, pool{})
		p.pods = 5
		w.until(5*time.Minute, "five nodes for five pods", func() bool { return w.settled(p, 5) })
		p.pods = 1
		w.endsAt(p, 1)
		w.neverAbove(5)
		if w.checker.deletedNodes != 4 {
			t.Errorf("%d nodes were deleted, want 4", w.checker.deletedNodes)
		}
	})
}

// The numbers of calls in a steady loop are those of cluster-autoscaler itself: 2 + 3G + 5N + 7U calls for G groups, N
// nodes in groups and U nodes without a group.
func TestALoopOfTheSimulatedAutoscalerMakesAsManyCallsAsTheRealOneWhenItHasNothingToScale(t *testing.T) {
	inWorld(t, func(w *world) {
		withThreeBusyNodes(w, pool{})
		foreign := readyOf("foreign", "").Node
		w.must(w.admin.Create(w.ctx, foreign))
		// The API server has put the taint not-ready on the Node. No node lifecycle controller runs that would remove it.
		before := foreign.DeepCopy()
		foreign.Spec.Taints = nil
		w.must(w.admin.Patch(w.ctx, foreign, client.MergeFrom(before)))
		w.run(2 * time.Minute)
		w.wire.endFaults()
		w.until(time.Minute, "ten loops", func() bool { return w.wire.count("Refresh") == 4 })
		loops := w.wire.count("Refresh")
		for method, want := range map[string]int{
			"NodeGroups": 1, "NodeGroupTargetSize": 3, "NodeGroupForNode": 3 + 7, "NodeGroupGetOptions": 4 * 3, "NodeGroupIncreaseSize": 0,
		} {
			if got := w.wire.count(method); got != loops*want {
				t.Errorf("%s: %d calls in %d loops, want %d in each", method, got, loops, want)
			}
		}
	})
}

func TestScaleUpsDuringFailedCalls(t *testing.T) {
	t.Parallel()
	t.Run("the autoscaler requests no node twice while drover cannot reach the API server (CA-C13, CA-C113)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
			d := w.drovers[0]
			d.cut.Store(true)
			w.run(3 * time.Minute)
			calls := proto.NewCloudProviderClient(w.wire)
			if _, err := calls.Refresh(w.ctx, &proto.RefreshRequest{}); err == nil {
				t.Error("Refresh() returned no error although drover's caches are stale")
			}
			if got, err := calls.NodeGroups(w.ctx, &proto.NodeGroupsRequest{}); err != nil || len(got.GetNodeGroups()) != 1 {
				t.Errorf("NodeGroups() = %v, %v; the client would forget its scale-up", got, err)
			}
			d.cut.Store(false)
			w.endsAt(p, 5)
			w.neverAbove(5)
		})
	})
	for name, method := range map[string]string{
		"by a known bug, the autoscaler forgets a scale-up after one failed NodeGroups call, repeats it, and removes the excess":   "NodeGroups",
		"by a known bug, the autoscaler forgets a scale-up after a failed NodeGroupGetOptions, repeats it, and removes the excess": "NodeGroupGetOptions",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{boot: 3 * time.Minute})
				p.pods = 5
				failed := false
				w.wire.faulty(func(m string, _ int) outcome {
					if failed || m != method || w.wire.calls["NodeGroupIncreaseSize"] != 1 {
						return carriedOut
					}
					failed = true
					return refused
				})
				w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
				w.endsAt(p, 5)
				w.neverAbove(7)
				if w.checker.peak != 7 {
					t.Errorf("the size rose to %d, want 7: cluster-autoscaler would order twice", w.checker.peak)
				}
			})
		})
	}
}

func TestScalingWhenResponsesAreLostOrCallsFail(t *testing.T) {
	t.Parallel()
	t.Run("when the response to a scale-up is lost, the autoscaler scales up another group too, and removes the excess nodes later (CA-C62)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			w.pool(pool{name: "b"}, 0, 0, 10)
			w.run(time.Minute)
			for _, each := range w.pools {
				each.flexible = true
			}
			w.wire.faulty(func(m string, n int) outcome {
				if m == "NodeGroupIncreaseSize" && n == 1 {
					return lost
				}
				return carriedOut
			})
			p.pods = 5
			w.until(10*time.Minute, "both groups have grown", func() bool { return w.total() == 7 })
			w.until(2*calm, "as many nodes as pods", func() bool { return w.total() == 5 })
			w.run(20 * time.Minute)
			if got := w.total(); got != 5 {
				t.Errorf("the sizes are %d at the end\n%s", got, w.describe())
			}
			w.neverAbove(7)
		})
	})
	t.Run("a node is removed only once although the response to its removal is lost (CA-C12, CA-C67, CA-C77)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			w.wire.faulty(func(m string, n int) outcome {
				if m == "NodeGroupDeleteNodes" && n <= 2 {
					return lost
				}
				return carriedOut
			})
			p.pods = 1
			w.endsAt(p, 1)
			if w.checker.deletedNodes != 2 {
				t.Errorf("%d nodes were deleted, want 2", w.checker.deletedNodes)
			}
		})
	})
	t.Run("a node stays while DeleteNodes fails, and is removed afterwards", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{})
			w.wire.faulty(func(m string, _ int) outcome {
				if m == "NodeGroupDeleteNodes" {
					return refused
				}
				return carriedOut
			})
			p.pods = 1
			w.run(time.Hour)
			if w.checker.deletedNodes != 0 || w.replicas(p) != 3 {
				t.Errorf("%d nodes were deleted, the size is %d", w.checker.deletedNodes, w.replicas(p))
			}
			w.wire.endFaults()
			w.endsAt(p, 1)
		})
	})
	t.Run("the size meets the demand although responses to DecreaseTargetSize are lost (CA-C89)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{lost: func(n int) bool { return n > 3 && n < 6 }})
			w.wire.faulty(func(m string, n int) outcome {
				if m == "NodeGroupDecreaseTargetSize" && n <= 2 {
					return lost
				}
				return carriedOut
			})
			p.pods = 5
			w.endsAt(p, 5)
		})
	})
}
