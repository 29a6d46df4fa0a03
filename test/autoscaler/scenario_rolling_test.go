package autoscaler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
)

var realClock = clock.RealClock{}

func (w *world) typed() kubernetes.Interface {
	k, err := kubernetes.NewForConfig(w.kube.Config("admin"))
	w.must(err)
	return k
}

// roll changes a pool's template.
func (w *world) roll(p *pool, strategy *v1alpha1.MachineDeploymentStrategy) {
	w.edit(p, func(d *v1alpha1.MachineDeployment) {
		p.version = fmt.Sprintf("1.37.%d", d.Generation+1)
		d.Spec.Strategy = strategy
		d.Spec.Template.Spec.Versions.Kubelet = p.version
	})
}

func (w *world) old(p *pool) (n int) {
	for _, m := range w.machinesOf(p) {
		if m.Spec.Versions.Kubelet != p.version {
			n++
		}
	}
	return n
}

func updateBy(surge, unavailable int) *v1alpha1.MachineDeploymentStrategy {
	return &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.MachineRollingUpdate{
		MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(unavailable)),
	}}
}

func TestARolloutKeepsTheSizeWhenEachDrainTakesAnHour(t *testing.T) {
	t.Parallel()
	const lessFirst, allFirst = "a rollout without surge keeps the size (CA-C32)", "a Recreate rollout keeps the size (CA-C32)"
	for name, strategy := range some(map[string]*v1alpha1.MachineDeploymentStrategy{
		"a rollout with a surge of one keeps the size (CA-C32)": updateBy(1, 0),
		lessFirst: updateBy(0, 1),
		"a rollout with maxSurge 2 and maxUnavailable 2 keeps the size (CA-C32)": updateBy(2, 2),
		allFirst: {Type: v1alpha1.Recreate},
		"an OnDelete rollout keeps the size (CA-C31)": {Type: v1alpha1.OnDelete},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{drain: time.Hour})
				w.roll(p, strategy)
				if strategy.Type == v1alpha1.OnDelete {
					// Until drover has seen the new template, the old set replaces a deleted Machine by one with the old template.
					w.run(time.Minute)
				}
				for end := time.Now().Add(8 * time.Hour); w.old(p) > 0 && time.Now().Before(end); {
					if strategy.Type == v1alpha1.OnDelete {
						w.deleteOld(p)
					}
					w.run(20 * time.Minute)
				}
				w.endsAt(p, 3)
				// A rollout with surge creates replacements first. They stay empty until the old nodes' pods are evicted, and the
				// autoscaler must not remove them meanwhile. The other rollouts evict pods before their replacements exist, so the
				// autoscaler requests nodes, too.
				if ahead := name != lessFirst && name != allFirst; ahead && w.checker.deletedNodes != 3 {
					t.Errorf("%d nodes were deleted, want the 3 old ones\n%s", w.checker.deletedNodes, w.describe())
				}
				w.neverAbove(6)
			})
		})
	}
}

func TestUserAndAutoscalerChangeTheSizeDuringARollout(t *testing.T) {
	t.Parallel()
	for name, c := range some(map[string]struct {
		strategy *v1alpha1.MachineDeploymentStrategy
		peak     int
	}{
		"a rollout with surge ends at the last size that was set, despite lost responses and a restart of drover (CA-C32, CA-C60, CA-C80)":    {updateBy(1, 0), 7},
		"a rollout without surge ends at the last size that was set, despite lost responses and a restart of drover (CA-C32, CA-C60, CA-C80)": {updateBy(0, 1), 7},
		// For a while the group has no node at all, and the autoscaler does not count upcoming nodes that it has not requested
		// itself. So the size may rise to 10.
		"a Recreate rollout ends at the last size that was set, despite lost responses and a restart of drover (CA-C32, CA-C60, CA-C80)": {&v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}, 10},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{drain: 20 * time.Minute})
				w.roll(p, c.strategy)
				w.run(3 * time.Minute)
				w.resize(p, 5)
				w.run(7 * time.Minute)
				w.wire.faulty(func(m string, n int) outcome {
					if n == 1 && (m == "NodeGroupIncreaseSize" || m == "NodeGroupDeleteNodes") {
						return lost
					}
					return carriedOut
				})
				p.pods = 6
				w.run(10 * time.Minute)
				w.drovers[len(w.drovers)-1].end()
				w.startDrover(droverOptions{})
				w.resize(p, 4)
				w.run(10 * time.Minute)
				p.pods = 4
				w.until(8*time.Hour, "all nodes are new", func() bool { return w.old(p) == 0 && w.settled(p, 4) })
				w.endsAt(p, 4)
				w.neverAbove(c.peak)
			})
		})
	}
}

// deleteOld deletes one Machine with the old template, as a user does, unless another Machine is still being deleted.
func (w *world) deleteOld(p *pool) {
	for _, m := range w.machinesOf(p) {
		if m.DeletionTimestamp != nil {
			return
		}
	}
	for _, m := range w.machinesOf(p) {
		if m.Spec.Versions.Kubelet != p.version {
			w.must(w.admin.Delete(w.ctx, &m))
			return
		}
	}
}

func TestUsersAndTheAutoscalerChangeTheSameGroup(t *testing.T) {
	t.Parallel()
	t.Run("two new pods add exactly two nodes while two nodes that a user removed are still being drained (CA-C31, CA-C32)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{boot: 4 * time.Minute, drain: time.Hour})
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { return w.settled(p, 5) })
			// The two removed nodes are drained, which takes an hour because of their pods. Meanwhile two more pods are created.
			w.resize(p, 3)
			w.run(30 * time.Second)
			p.pods = 7
			w.checker.peak = 0
			w.run(30 * time.Minute)
			// The pods on the two draining nodes need other nodes only when they are evicted.
			if got := w.checker.peak; got != 5 {
				t.Errorf("the size rose to %d, want 5: 3 nodes and 2 ordered ones\n%s", got, w.describe())
			}
			w.endsAt(p, 7)
		})
	})
	t.Run("when a user deletes a Machine, drover replaces it, and the autoscaler adds at most one more node", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{drain: 30 * time.Minute})
			w.checker.excused = true
			machines := w.machinesOf(p)
			w.must(w.admin.Delete(w.ctx, &machines[0]))
			w.run(time.Hour)
			w.endsAt(p, 3)
			w.neverAbove(4)
		})
	})
	t.Run("a DeleteNodes call during a rollout deletes only the node that it names (CA-C80)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{drain: 20 * time.Minute})
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { return w.settled(p, 5) })
			w.roll(p, updateBy(1, 0))
			w.run(time.Minute)
			p.pods = 3
			w.until(12*time.Hour, "all nodes are new and meet the demand", func() bool { return w.old(p) == 0 && w.settled(p, 3) })
			w.endsAt(p, 3)
			w.neverAbove(5)
		})
	})
	t.Run("after a user and the autoscaler have changed the size in turns, the group has as many nodes as its pods need (CA-C60, CA-C64, CA-C82)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{boot: 2 * time.Minute})
			for round := range 6 {
				p.pods = 3 + round%3*2
				w.run(time.Duration(7+13*round) * time.Second)
				w.resize(p, max(1, w.replicas(p)+round%2*2-1))
				w.run(time.Duration(3+round) * time.Minute)
			}
			p.pods = 4
			w.run(calm)
			w.endsAt(p, 4)
		})
	})
}

func TestConcurrentDeleteNodesCalls(t *testing.T) {
	t.Parallel()
	t.Run("ten concurrent DeleteNodes calls delete exactly the ten named nodes (CA-C66)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", pods: 12}, 0, 12, 20)
			w.startDrover(droverOptions{})
			w.until(10*time.Minute, "twelve nodes", func() bool { return w.settled(p, 12) })
			calls := proto.NewCloudProviderClient(w.wire)
			machines := w.machinesOf(p)[:10]
			var all sync.WaitGroup
			failures := make(chan error, len(machines))
			for _, m := range machines {
				all.Go(func() {
					_, err := calls.NodeGroupDeleteNodes(w.ctx, &proto.NodeGroupDeleteNodesRequest{
						Id: p.id(), Nodes: []*proto.ExternalGrpcNode{{Name: m.Name, ProviderID: *m.Spec.ProviderID}},
					})
					if err != nil {
						failures <- fmt.Errorf("%s: %w", m.Name, err)
					}
				})
			}
			all.Wait()
			close(failures)
			for err := range failures {
				t.Error(err)
			}
			if got := w.replicas(p); got != 2 {
				t.Errorf("the size is %d after the calls have returned, want 2", got)
			}
			p.pods = 2
			w.endsAt(p, 2)
			if w.checker.deletedNodes != 10 {
				t.Errorf("%d nodes were deleted, want 10", w.checker.deletedNodes)
			}
		})
	})
}
