package freeze

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTheFormerMaximumOfMachinesCountsForAMinute(t *testing.T) {
	a := key{types.NamespacedName{Namespace: "ns", Name: "a"}, true}
	t.Run("counts the maximum from before a size was lowered, for a minute (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		if early, late := s.largest(a, noon.Add(time.Minute-1)), s.largest(a, noon.Add(time.Minute)); early != 11 || late != 0 {
			t.Errorf("it is %d, then %d", early, late)
		}
	})
	t.Run("counts the largest of several former maximums (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		s.note(a, 8, noon.Add(30*time.Second))
		if got := s.largest(a, noon.Add(80*time.Second)); got != 11 {
			t.Errorf("it is %d", got)
		}
	})
	t.Run("does not count another group's former maximum", func(t *testing.T) {
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

func TestALoweredSizeHasAFormerMaximumOfMachines(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after client.Object
		want          int
	}{
		"returns the former maximum for a smaller size of a deployment":               {newDeployment(10), newDeployment(5), 11},
		"returns no former maximum for a larger size of a deployment":                 {newDeployment(5), newDeployment(10), 0},
		"returns no former maximum for the same size":                                 {newDeployment(5), newDeployment(5), 0},
		"returns the former maximum for a smaller size of a set without a deployment": {newSet("a", 4, nil), newSet("a", 1, nil), 8},
		"returns no former maximum for a smaller size of a deployment's set":          {newSet("a", 4, newDeployment(5)), newSet("a", 1, newDeployment(5)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lowered(tt.before, tt.after); got != tt.want {
				t.Errorf("the former bound is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTheFormerMaximumIsUnknownUntilTheControllerHasFollowedTheSpec(t *testing.T) {
	for name, tt := range map[string]struct {
		observed int64
		want     int
	}{
		"returns no former maximum for a new object":                                                     {0, 0},
		"returns no former maximum for an object whose controller has followed its spec":                 {1, 0},
		"returns an unknown former maximum for an object whose controller has not followed its spec yet": {7, unknown},
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
