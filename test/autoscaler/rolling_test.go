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

func TestARolloutWithDrainsOfAnHourLeavesTheSizeAsItWas(t *testing.T) {
	t.Parallel()
	const lessFirst, allFirst = "CA-C32 one less at a time", "CA-C32 all old ones first"
	for name, strategy := range map[string]*v1alpha1.MachineDeploymentStrategy{
		"CA-C32 one more at a time":   updateBy(1, 0),
		lessFirst:                     updateBy(0, 1),
		"CA-C32 half of them at once": updateBy(2, 2),
		allFirst:                      {Type: v1alpha1.Recreate},
		"CA-C31 by hand, one by one":  {Type: v1alpha1.OnDelete},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{drain: time.Hour})
				w.roll(p, strategy)
				for end := time.Now().Add(8 * time.Hour); w.old(p) > 0 && time.Now().Before(end); {
					if strategy.Type == v1alpha1.OnDelete {
						w.deleteOld(p)
					}
					w.run(20 * time.Minute)
				}
				w.ends(p, 3)
				// A replacement is empty as long as the old node's pods stay there: nobody takes it away to order it again.
				// Where pods wait before their replacement is ordered, the client orders too.
				if ahead := name != lessFirst && name != allFirst; ahead && w.judge.gone != 3 {
					t.Errorf("%d nodes went, the 3 old ones should\n%s", w.judge.gone, w.describe())
				}
				w.notBeyond(6)
			})
		})
	}
}

func TestARolloutInWhichTheSizeIsChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strategy *v1alpha1.MachineDeploymentStrategy
		peak     int
	}{
		"one more at a time": {updateBy(1, 0), 7},
		"one less at a time": {updateBy(0, 1), 7},
		// There are no nodes at all for a while, nor does the client count what it has not ordered itself.
		"all old ones first": {&v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}, 10},
	} {
		t.Run("CA-C32 CA-C60 CA-C80 "+name+", by a person and by the client, with an answer lost and drover started anew", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{drain: 20 * time.Minute})
				w.roll(p, c.strategy)
				w.run(3 * time.Minute)
				w.resize(p, 5)
				w.run(7 * time.Minute)
				w.wire.faulty(func(m string, n int) fate {
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
				w.ends(p, 4)
				w.notBeyond(c.peak)
			})
		})
	}
}

// deleteOld deletes one Machine of the old template, as a person does, once the last one has gone.
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

func TestNodesThatGoForAnotherReason(t *testing.T) {
	t.Parallel()
	t.Run("CA-C31 CA-C32 nodes that a person takes away do not eat into an order, so it is made once", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{boot: 4 * time.Minute, drain: time.Hour})
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { return w.settled(p, 5) })
			// Two go, slowly; their pods stay for an hour. Two more pods come.
			w.resize(p, 3)
			w.run(30 * time.Second)
			p.pods = 7
			w.judge.peak = 0
			w.run(30 * time.Minute)
			// The two nodes that drain carry pods that will need another place only when they are evicted.
			if got := w.judge.peak; got != 5 {
				t.Errorf("the size rose to %d, want 3 and the 2 that were ordered\n%s", got, w.describe())
			}
			w.ends(p, 7)
		})
	})
	t.Run("a machine that somebody deletes is replaced, and the client does not see a node too few", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{drain: 30 * time.Minute})
			w.judge.excused = true
			machines := w.machinesOf(p)
			w.must(w.admin.Delete(w.ctx, &machines[0]))
			w.run(time.Hour)
			w.ends(p, 3)
			w.notBeyond(4)
		})
	})
	t.Run("CA-C80 a node that is named in a rollout goes, and no other instead", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{drain: 20 * time.Minute})
			p.pods = 5
			w.until(10*time.Minute, "five nodes", func() bool { return w.settled(p, 5) })
			w.roll(p, updateBy(1, 0))
			w.run(time.Minute)
			p.pods = 3
			w.until(12*time.Hour, "all nodes are new, and as many as the demand", func() bool { return w.old(p) == 0 && w.settled(p, 3) })
			w.ends(p, 3)
			w.notBeyond(5)
		})
	})
	t.Run("CA-C60 CA-C64 CA-C82 a person and the client change the size by turns", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{boot: 2 * time.Minute})
			for round := range 6 {
				p.pods = 3 + round%3*2
				w.run(time.Duration(7+13*round) * time.Second)
				w.resize(p, max(1, w.replicas(p)+round%2*2-1))
				w.run(time.Duration(3+round) * time.Minute)
			}
			p.pods = 4
			w.run(calm)
			w.ends(p, 4)
		})
	})
}

func TestRemovalsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("CA-C66 ten single-node calls at once take exactly those ten", func(t *testing.T) {
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
				t.Errorf("the size is %d when the calls have returned, want 2", got)
			}
			p.pods = 2
			w.ends(p, 2)
			if w.judge.gone != 10 {
				t.Errorf("%d nodes went, want 10", w.judge.gone)
			}
		})
	})
}
