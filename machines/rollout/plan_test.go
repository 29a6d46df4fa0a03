package rollout

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func condition(p Plan, kind string) metav1.Condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func settled(s shape) *simulation {
	w := newSimulation(s)
	w.settle(&strings.Builder{})
	return w
}

// stall begins a rollout to the template B, whose new Machines never become Ready.
func (w *simulation) stall() {
	w.broken["B"] = true
	w.template("B")
	w.settle(&strings.Builder{})
}

func TestAMissingSizeOfADeploymentIsRestored(t *testing.T) {
	last := int32(4)
	tests := map[string]struct {
		last   *int32
		bounds v1alpha1.Bounds
		want   int32
	}{
		"the restored size of a new deployment is 1":                              {nil, v1alpha1.Bounds{}, 1},
		"the restored size of a new deployment whose maximum is 0 is 0":           {nil, v1alpha1.Bounds{Empty: true}, 0},
		"the restored size of a new node group is the minimum":                    {nil, v1alpha1.Bounds{Min: 2, Max: 5, Listed: true}, 2},
		"the restored size is status.lastReplicas when that is within the bounds": {&last, v1alpha1.Bounds{Min: 2, Max: 5, Listed: true}, 4},
		"the restored size is the maximum when status.lastReplicas is larger":     {&last, v1alpha1.Bounds{Min: 1, Max: 3, Listed: true}, 3},
		"the restored size is the minimum when status.lastReplicas is smaller":    {&last, v1alpha1.Bounds{Min: 6, Max: 9, Listed: true}, 6},
		"the restored size is status.lastReplicas when there are no bounds":       {&last, v1alpha1.Bounds{}, 4},
	}
	for name, tt := range tests {
		t.Run(name+" (MC-1)", func(t *testing.T) {
			w := newSimulation(shape{3, "1", "0"})
			w.d.Spec.Replicas, w.d.Status.LastReplicas = nil, tt.last
			s := w.snapshot()
			s.Bounds = tt.bounds
			if p, err := Compute(s); err != nil || p.Replicas != tt.want || !p.RestoreReplicas {
				t.Errorf("decideSize() = %d, restore %v; %v", p.Replicas, p.RestoreReplicas, err)
			}
		})
	}
	for name, tt := range map[string]struct {
		seen   int32
		bounds v1alpha1.Bounds
		want   int32
	}{
		"the last size that drover has seen, also when status.lastReplicas is another one": {7, v1alpha1.Bounds{}, 7},
		"the maximum when the last size that drover has seen is larger":                    {7, v1alpha1.Bounds{Max: 5, Listed: true}, 5},
		"status.lastReplicas when the last size that drover has seen is not allowed":       {v1alpha1.MaxReplicas + 1, v1alpha1.Bounds{}, 4},
	} {
		t.Run("the restored size is "+name+" (F-5)", func(t *testing.T) {
			w := newSimulation(shape{3, "1", "0"})
			w.d.Spec.Replicas, w.d.Status.LastReplicas = nil, &last
			s := w.snapshot()
			s.Bounds, s.Seen = tt.bounds, &tt.seen
			if p, err := Compute(s); err != nil || p.Replicas != tt.want || !p.RestoreReplicas {
				t.Errorf("decideSize() = %d, restore %v; %v", p.Replicas, p.RestoreReplicas, err)
			}
		})
	}
	t.Run("the last size that drover has seen is restored as it is, because it was lowered together with the removals that go with it (F-5)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[0])
		s := w.snapshot()
		s.Seen, w.d.Spec.Replicas = w.d.Spec.Replicas, nil
		if p, err := Compute(s); err != nil || p.Replicas != 3 {
			t.Errorf("decideSize() = %d, %v", p.Replicas, err)
		}
	})
	t.Run("a restored size does not undo a removal that is in progress", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.remove(w.machines[0])
		w.d.Spec.Replicas = nil
		if p, err := Compute(w.snapshot()); err != nil || p.Replicas != 3 {
			t.Errorf("decideSize() = %d, %v", p.Replicas, err)
		}
	})
}

func TestAMissingSizeOfADeploymentIsRestoredFromItsSetWhenTheDeploymentsStatusIsOutOfDate(t *testing.T) {
	w := settled(shape{4, "1", "0"})
	before := w.d.Status
	w.remove(w.machines[0])
	w.plan()
	w.d.Status, w.d.Spec.Replicas = before, nil
	if p, err := Compute(w.snapshot()); err != nil || p.Replicas != 3 {
		t.Errorf("size = %d, want 3, because a set was written before the status; %v", p.Replicas, err)
	}
}

func TestANegativeSizeOfASetIsReplacedByTheDeploymentsSize(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.sets[0].Spec.Replicas = new(int32(-1))
	p, _ := w.plan()
	if len(p.Changes) != 1 || p.Changes[0].Replicas != 3 {
		t.Errorf("changes %+v", p.Changes)
	}
}

// crowd returns a deployment of 5000 Machines in 100 sets.
func crowd() Snapshot {
	w := newSimulation(shape{5000, "25%", "25%"})
	s := w.snapshot()
	for i := range 100 {
		n := int32(50)
		set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("md-%d", i), UID: types.UID(fmt.Sprint("set", i))}}
		set.Spec.Replicas = &n
		set.Spec.Template = *w.d.Spec.Template.DeepCopy()
		set.Spec.Template.Spec.Versions.Kubelet = fmt.Sprint("old", i)
		state := SetState{Set: set}
		for j := range 50 {
			m := fact(fmt.Sprintf("m-%d-%d", i, j), j).Machine
			w.ready(m, true)
			state.Machines = append(state.Machines, m)
		}
		s.Sets = append(s.Sets, state)
	}
	return s
}

// BenchmarkPlanning5000MachinesIn100Sets measures how long it takes to compute the plan of a large deployment. The target is at most 5 ms.
func BenchmarkPlanning5000MachinesIn100Sets(b *testing.B) {
	s := crowd()
	for b.Loop() {
		if _, err := Compute(s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/plan")
}

// BenchmarkRecordingAPlan measures how long it takes to record the plan of a large deployment for the page /plans.
func BenchmarkRecordingAPlan(b *testing.B) {
	s := crowd()
	for b.Loop() {
		if _, err := NewRecord(s, Plan{}); err != nil {
			b.Fatal(err)
		}
	}
}
