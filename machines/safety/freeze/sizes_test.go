package freeze

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestFormerBoundsCountForAMinute(t *testing.T) {
	a := key{types.NamespacedName{Namespace: "ns", Name: "a"}, true}
	t.Run("counts a lowered bound for a minute (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		if early, late := s.largest(a, noon.Add(time.Minute-1)), s.largest(a, noon.Add(time.Minute)); early != 11 || late != 0 {
			t.Errorf("it is %d, then %d", early, late)
		}
	})
	t.Run("counts the largest of several bounds (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		s.note(a, 8, noon.Add(30*time.Second))
		if got := s.largest(a, noon.Add(80*time.Second)); got != 11 {
			t.Errorf("it is %d", got)
		}
	})
	t.Run("does not count another group's bound", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		if got := s.largest(key{a.NamespacedName, false}, noon); got != 0 {
			t.Errorf("it is %d", got)
		}
	})
	t.Run("keeps nothing of a group that is gone (F-12)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		s.forget(a)
		s.note(a, 12, noon)
		s.largest(a, noon.Add(time.Hour))
		if len(s.former) != 0 {
			t.Errorf("the store holds %v", s.former)
		}
	})
}

func TestLoweredReturnsTheFormerBound(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after client.Object
		want          int
	}{
		"a smaller size of a deployment":       {newDeployment(10), newDeployment(5), 11},
		"a larger size of a deployment":        {newDeployment(5), newDeployment(10), 0},
		"the same":                             {newDeployment(5), newDeployment(5), 0},
		"a smaller size of a set of its own":   {newSet("a", 4, nil), newSet("a", 1, nil), 8},
		"a smaller size of a deployment's set": {newSet("a", 4, newDeployment(5)), newSet("a", 1, newDeployment(5)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lowered(tt.before, tt.after); got != tt.want {
				t.Errorf("the former bound is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestFirstReturnsTheFormerBoundAtTheStart(t *testing.T) {
	for name, tt := range map[string]struct {
		observed int64
		want     int
	}{
		"a new object": {0, 0},
		"an object whose controller has followed its spec":         {1, 0},
		"an object whose controller has not followed its spec yet": {7, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := newDeployment(5), newSet("a", 5, nil)
			d.Status.ObservedGeneration, s.Status.ObservedGeneration = tt.observed, tt.observed
			if first(d) != tt.want || first(s) != tt.want {
				t.Errorf("the former bounds are %d and %d, want %d", first(d), first(s), tt.want)
			}
		})
	}
}

func TestStateOfNoticesEachChangeOfAFreeze(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.MachineDeployment){
		"the label (MCM-78)":     func(d *v1alpha1.MachineDeployment) { mark(d, true, "", "") },
		"the condition (MCM-78)": func(d *v1alpha1.MachineDeployment) { mark(d, false, "True", ReasonOvershoot) },
		"the annotation (MCM-77)": func(d *v1alpha1.MachineDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationUnfreeze: ""}
		},
		"the end of a pause":  func(d *v1alpha1.MachineDeployment) { d.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} },
		"a deletion (MCM-76)": func(d *v1alpha1.MachineDeployment) { d.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(5)
			change(d)
			if stateOf(d) == stateOf(newDeployment(5)) {
				t.Error("stateOf() is the same after the change")
			}
		})
	}
	t.Run("ignores counters in the status", func(t *testing.T) {
		d := newDeployment(5)
		d.Status.Replicas, d.Status.ObservedGeneration = 7, 2
		if stateOf(d) != stateOf(newDeployment(5)) {
			t.Error("stateOf() differs after a change of counters")
		}
	})
}
