package set

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testSet(replicas int32) *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", Namespace: "ns", UID: "set-uid", Generation: 4},
		Spec: v1alpha1.MachineSetSpec{
			Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{
				Labels: map[string]string{"a": "b", "c": "d"}, Annotations: map[string]string{"note": "yes"}}},
		},
	}
}

// machine is Ready for the given time; a negative time means without a node.
func machine(name string, readyFor time.Duration) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{"a": "b"}}}
	if readyFor >= 0 {
		since := metav1.NewTime(start.Add(-readyFor))
		m.Status.NodeRef = &corev1.ObjectReference{Name: name}
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, LastTransitionTime: &since}}
	}
	return m
}

func deleting(m *v1alpha1.Machine) *v1alpha1.Machine {
	at := metav1.NewTime(start)
	m.DeletionTimestamp = &at
	return m
}

// looks returns what a set looks like at start, with what the cache does not show yet.
func looks(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, x *expectations) seen {
	return observe(set, machines, set.Spec.Removals, x.unmet(set), start)
}

func TestDecide(t *testing.T) {
	listing := func(set *v1alpha1.MachineSet, names ...string) *v1alpha1.MachineSet {
		for _, n := range names {
			set.Spec.Removals = append(set.Spec.Removals, v1alpha1.Removal{Name: n, UID: types.UID(n)})
		}
		return set
	}
	tests := map[string]struct {
		set      *v1alpha1.MachineSet
		machines []*v1alpha1.Machine
		create   int
		remove   []string
	}{
		"MC-32 what is missing is made":                                  {testSet(3), []*v1alpha1.Machine{machine("a", 1)}, 2, nil},
		"MC-33 a deleting one is not counted":                            {testSet(2), []*v1alpha1.Machine{machine("a", 1), deleting(machine("b", 1))}, 1, nil},
		"MC-36 the one without a node goes first":                        {testSet(1), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"b"}},
		"CA-C88 the listed one goes, and none is made for it":            {listing(testSet(1), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"a"}},
		"MCM-30 a listed one goes at an unchanged size, and one is made": {listing(testSet(2), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", 1)}, 1, []string{"a"}},
		"CA-C68 listed and deleting already":                             {listing(testSet(1), "a"), []*v1alpha1.Machine{deleting(machine("a", 1)), machine("b", 1)}, 0, nil},
		"MC-17 one that a rollout removes goes, and the size is that of the others (F-33)": {func() *v1alpha1.MachineSet {
			s := testSet(1)
			s.Spec.RolloutRemovals = []v1alpha1.Removal{{Name: "a", UID: "a"}}
			return s
		}(), []*v1alpha1.Machine{machine("a", 1), machine("b", -1)}, 0, []string{"a"}},
		"a listed one of the same name with another UID stays": {func() *v1alpha1.MachineSet {
			s := listing(testSet(1), "a")
			s.Spec.Removals[0].UID = "former"
			return s
		}(), []*v1alpha1.Machine{machine("a", 1)}, 0, nil},
		"a listed one and a smaller size": {listing(testSet(1), "a"), []*v1alpha1.Machine{machine("a", 1), machine("b", 1), machine("c", 1)}, 0, []string{"a", "b"}},
		"OnDelete: an old set makes nothing": {func() *v1alpha1.MachineSet {
			s := testSet(2)
			s.Annotations = map[string]string{v1alpha1.AnnotationNoCreate: "true"}
			return s
		}(), nil, 0, nil},
		"a pass is bounded": {testSet(maxPerPass + 7), nil, maxPerPass, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(observe(tt.set, tt.machines, tt.set.Spec.Removals, unmet{}, start))
			var removed []string
			for _, m := range d.remove {
				removed = append(removed, m.Name)
			}
			if d.create != tt.create || !slices.Equal(removed, tt.remove) {
				t.Errorf("creates %d and removes %v, want %d and %v", d.create, removed, tt.create, tt.remove)
			}
		})
	}
}

func TestASizeThatNobodyGives(t *testing.T) {
	set := testSet(0)
	set.Spec.Replicas = nil
	if n, restore := wanted(set, 0); n != 1 || !restore {
		t.Errorf("a new set gets %d, put back: %v", n, restore)
	}
	set.Status.ObservedGeneration = 3
	if n, restore := wanted(set, 5); n != 5 || !restore {
		t.Errorf("a set of 5 gets %d, put back: %v", n, restore)
	}
}

func TestAStaleCache(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	set := testSet(2)
	a, b := machine("a", 1), machine("b", 1)

	t.Run("MC-34 MCM-25 what was made counts before the cache shows it", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.create(set, "a", start)
		if d := decide(looks(set, nil, x)); d.create != 1 {
			t.Errorf("makes %d, 1 is missing", d.create)
		}
		if _, wait := x.settle(set, []*v1alpha1.Machine{a}, start); wait != 0 {
			t.Errorf("still waits %s", wait)
		}
		if d := decide(looks(set, []*v1alpha1.Machine{a}, x)); d.create != 1 {
			t.Errorf("makes %d, 1 is missing", d.create)
		}
	})
	t.Run("MC-34 what was deleted is not deleted again, nor another in its place", func(t *testing.T) {
		x := newExpectations(nil, clock)
		small := testSet(1)
		x.delete(small, a, start)
		if d := decide(looks(small, []*v1alpha1.Machine{a, b}, x)); len(d.remove) != 0 || d.create != 0 {
			t.Errorf("removes %d, makes %d", len(d.remove), d.create)
		}
	})
	t.Run("MC-34 made and deleted before the cache showed it", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.create(set, "a", start)
		x.gone(types.NamespacedName{Namespace: "ns", Name: "set"}, a)
		if d := decide(looks(set, nil, x)); d.create != 2 {
			t.Errorf("makes %d, 2 are missing", d.create)
		}
	})
	t.Run("what the cache never shows becomes overdue", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.create(set, "a", start)
		if late, wait := x.settle(set, nil, start.Add(time.Second)); len(late.created) != 0 || wait != overdue-time.Second {
			t.Errorf("late %v after a second, waits %s", late.created, wait)
		}
		if late, _ := x.settle(set, nil, start.Add(overdue)); !slices.Equal(late.created, []string{"a"}) {
			t.Errorf("late are %v", late.created)
		}
	})
	t.Run("a set of the same name that came later starts anew", func(t *testing.T) {
		x := newExpectations(nil, clock)
		x.create(set, "a", start)
		later := testSet(2)
		later.UID = "later"
		if n := x.unmet(later).created; n != 0 {
			t.Errorf("%d are counted for another set", n)
		}
	})
}

func TestStatusCountsLivingMachines(t *testing.T) {
	set := testSet(3)
	set.Spec.MinReadySeconds = 60
	set.Spec.Removals = []v1alpha1.Removal{{Name: "listed", UID: "listed"}}
	labelled := machine("old", time.Hour)
	labelled.Labels["c"] = "d"
	all := []*v1alpha1.Machine{
		labelled, machine("young", 20*time.Second), machine("none", -1), deleting(machine("dying", time.Hour)), machine("listed", time.Hour),
	}
	seen := observe(set, all, set.Spec.Removals, unmet{}, start)
	st := seen.status(labels.SelectorFromSet(labels.Set{"a": "b"}))
	want := v1alpha1.MachineSetStatus{Replicas: 3, FullyLabeledReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 1, ObservedGeneration: 4, Selector: "a=b"}
	if fmt.Sprint(st) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", st, want)
	}
	if seen.availableIn != 40*time.Second {
		t.Errorf("MC-37 looks again in %s, the next is available in 40s", seen.availableIn)
	}
}

func TestNewMachine(t *testing.T) {
	set := testSet(1)
	m := newMachine(set, "abcde")
	if m.Name != "set-abcde" || m.Spec.Metadata.Name != m.Name || m.Labels["c"] != "d" || m.Annotations["note"] != "yes" {
		t.Errorf("MC-32 name %s, node %s, labels %v, annotations %v", m.Name, m.Spec.Metadata.Name, m.Labels, m.Annotations)
	}
	if !slices.Equal(m.Finalizers, []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}) {
		t.Errorf("MC-39 finalizers %v", m.Finalizers)
	}
	if !metav1.IsControlledBy(m, set) || m.OwnerReferences[0].BlockOwnerDeletion == nil {
		t.Errorf("MC-32 owners %v", m.OwnerReferences)
	}
}

func TestCeiling(t *testing.T) {
	for name, tt := range map[string]struct{ create, wanted, released, want int }{
		"MCM-35 a new set makes all":                     {100, 100, 0, 100},
		"MCM-35 all may be replaced once":                {100, 100, 100, 100},
		"MCM-35 what was released counts":                {1, 1, 11, 1},
		"MCM-35 at the ceiling none is made":             {1, 1, 12, 0},
		"MCM-35 beyond the ceiling none is made":         {1, 1, 50, 0},
		"MCM-35 below the ceiling as many as there fit":  {20, 20, 45, 5},
		"MCM-35 a small set has room for some oddities":  {1, 1, 3, 1},
		"MCM-35 living ones count, and what is released": {2, 10, 20, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := underCeiling(tt.create, tt.wanted, tt.released)
			if got != tt.want || (err == nil) != (got == tt.create) {
				t.Errorf("makes %d of %d, %v; want %d", got, tt.create, err, tt.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	set := testSet(3)
	reason, message := "CreateError", "no"
	now := metav1.NewTime(start)
	healthy := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 3}, 3, now)
	set.Status.Conditions = healthy
	later := metav1.NewTime(start.Add(time.Hour))
	failed := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 3, ErrorReason: &reason, ErrorMessage: &message}, 3, later)
	if healthy[0].Status != "True" || healthy[1].Status != "False" || failed[1].Status != "True" || failed[1].Message != "no" {
		t.Errorf("MC-27 got %+v, then %+v", healthy, failed)
	}
	if !failed[0].LastTransitionTime.Equal(&now) || !failed[1].LastTransitionTime.Equal(&later) || failed[0].ObservedGeneration != 4 {
		t.Errorf("MC-27 the times are %+v", failed)
	}
	if few := conditions(set, v1alpha1.MachineSetStatus{AvailableReplicas: 2}, 3, now); few[0].Status != "False" {
		t.Errorf("2 of 3 are %+v", few[0])
	}
}

func TestCheck(t *testing.T) {
	t.Run("MC-38 MCM-1 what cannot be followed is refused", func(t *testing.T) {
		set := testSet(1)
		set.Spec.DeletePolicy = "Sometimes"
		if _, err := check(set); err == nil {
			t.Error("MC-38 an unknown deletePolicy is followed")
		}
		set = testSet(1)
		set.Spec.Selector.MatchLabels["x"] = "y"
		if _, err := check(set); err == nil {
			t.Error("MCM-1 a selector that does not match is followed")
		}
	})
}
