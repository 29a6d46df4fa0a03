package model

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/test/pools"
)

// surging returns a group in a rolling update. It has nodes of an old and of a new template, and more nodes than its
// size.
func surging(r *rapid.T) (*pools.World, *pools.Pool, *v1alpha1.MachineSet) {
	w := pools.NewWorld()
	size := rapid.Int32Range(1, 6).Draw(r, "size")
	surge := rapid.Int32Range(1, 4).Draw(r, "surge")
	p := w.Pool("a", size, 0, 20)
	limit, none := intstr.FromInt32(surge), intstr.FromInt32(0)
	p.Deployment.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{
		Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &limit, MaxUnavailable: &none},
	}
	p.Deployment.Spec.Template.Spec.Versions.Kubelet = "1.36.0"
	ready := func(m *v1alpha1.Machine) {
		pools.TakesPods(m)
		m.Annotations = map[string]string{v1alpha1.AnnotationPriority: strconv.Itoa(rapid.IntRange(1, 5).Draw(r, "priority"))}
		m.CreationTimestamp = metav1.NewTime(pools.Noon.Add(-time.Duration(rapid.IntRange(60, 99).Draw(r, "age")) * time.Minute))
	}
	old := p.Set
	old.Spec.Template = *p.Deployment.Spec.Template.DeepCopy()
	old.Spec.Template.Spec.Versions.Kubelet = "1.35.0"
	fresh := rapid.Int32Range(1, surge).Draw(r, "new ones")
	old.Spec.Replicas = ptr.To(size)
	for i := range size {
		p.Node(fmt.Sprintf("old-%d", i), ready)
	}
	p.Set = p.Revision(2)
	p.Set.Spec.Template = *p.Deployment.Spec.Template.DeepCopy()
	p.Set.Spec.Replicas = ptr.To(fresh)
	for i := range fresh {
		p.Node(fmt.Sprintf("new-%d", i), ready)
	}
	return w, p, old
}

func TestARolloutHidesMachinesFromTheAutoscalerBeforeItRemovesThem(t *testing.T) {
	taken := 0
	t.Run("the autoscaler sees as many nodes as the group's size, and none that the rollout removes next (CA-C32)", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			w, p, old := surging(r)
			s := build(w, Discovery{})
			shown := map[string]bool{}
			for _, n := range w.Nodes {
				if g := s.groupOf(pools.Asked(n)); g != nil {
					shown[n.Name] = true
				}
			}
			if int32(len(shown)) != *p.Deployment.Spec.Replicas {
				r.Fatalf("%d nodes have the group, the size is %d", len(shown), *p.Deployment.Spec.Replicas)
			}
			plan, err := rollout.Compute(rollout.Snapshot{Deployment: p.Deployment, Sets: states(w), Now: pools.Noon})
			if err != nil {
				r.Fatal(err)
			}
			for _, going := range shrunk(plan, w, old) {
				taken++
				if shown[going] {
					r.Fatalf("%s is removed next, and its node still has the group", going)
				}
			}
		})
	})
	if taken == 0 {
		t.Error("no rollout has taken anything")
	}
}

func states(w *pools.World) []rollout.SetState {
	var all []rollout.SetState
	for _, set := range w.Sets {
		state := rollout.SetState{Set: set}
		for _, m := range w.Machines {
			if metav1.IsControlledBy(m, set) {
				state.Machines = append(state.Machines, m)
			}
		}
		all = append(all, state)
	}
	return all
}

// shrunk returns the names of the Machines that set deletes when the plan is carried out.
func shrunk(plan rollout.Plan, w *pools.World, set *v1alpha1.MachineSet) (names []string) {
	for _, c := range plan.Changes {
		if c.Set.UID != set.UID {
			continue
		}
		var facts []rollout.MachineFacts
		for _, m := range w.Machines {
			if metav1.IsControlledBy(m, set) {
				facts = append(facts, rollout.Facts(m, 0, pools.Noon))
			}
		}
		for _, m := range rollout.DeletionOrder(facts, set.Spec.DeletePolicy, nil)[:max(0, len(facts)-int(c.Replicas))] {
			names = append(names, m.Name)
		}
	}
	return names
}
