package freeze

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestForHowLongTheLimitForAGroupsFormerSizeApplies(t *testing.T) {
	a := key{types.NamespacedName{Namespace: "ns", Name: "a"}, true}
	t.Run("the limit for the former size applies for one minute after the group's size was lowered (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		if early, late := s.largest(a, noon.Add(time.Minute-1)), s.largest(a, noon.Add(time.Minute)); early != 11 || late != 0 {
			t.Errorf("it is %d, then %d", early, late)
		}
	})
	t.Run("the limit for the largest former size applies when the group's size was lowered twice in a minute (MCM-73)", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		s.note(a, 8, noon.Add(30*time.Second))
		if got := s.largest(a, noon.Add(80*time.Second)); got != 11 {
			t.Errorf("it is %d", got)
		}
	})
	t.Run("the limit for a deployment's former size does not apply to a bare set with the same name", func(t *testing.T) {
		var s sizes
		s.note(a, 11, noon)
		if got := s.largest(key{a.NamespacedName, false}, noon); got != 0 {
			t.Errorf("it is %d", got)
		}
	})
	t.Run("the limit for the former size of a deleted group is forgotten (F-12)", func(t *testing.T) {
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

func TestWhetherTheLimitForTheFormerSizeStillAppliesAfterAChange(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after client.Object
		want          int
	}{
		"it applies after a deployment's size was lowered":                                                         {newDeployment(10), newDeployment(5), 11},
		"it does not apply after a deployment's size was raised":                                                   {newDeployment(5), newDeployment(10), 0},
		"it does not apply when a deployment's size stays the same":                                                {newDeployment(5), newDeployment(5), 0},
		"it applies after a bare set's size was lowered":                                                           {newSet("a", 4, nil), newSet("a", 1, nil), 8},
		"it does not apply after the size of a deployment's set was lowered, because the deployment's size counts": {newSet("a", 4, newDeployment(5)), newSet("a", 1, newDeployment(5)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lowered(tt.before, tt.after); got != tt.want {
				t.Errorf("the former bound is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTheFormerSizeOfAGroupWhenDroverFirstSeesTheGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		observed int64
		want     int
	}{
		"there is no former size when status.observedGeneration is missing, because the group is new":                                        {0, 0},
		"there is no former size when status.observedGeneration equals metadata.generation, because drover has already carried out the size": {1, 0},
		"the former size is unknown when status.observedGeneration differs from metadata.generation, as after a change of the size":          {7, unknown},
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
