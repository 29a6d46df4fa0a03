package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// aged sets the ages of the Machines, in the order of their names, to the given numbers of minutes.
func (w *simulation) aged(minutes ...int) {
	slices.SortFunc(w.machines, func(a, b *v1alpha1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range w.machines {
		m.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Duration(minutes[i]) * time.Minute))
	}
}

func (w *simulation) deletedAgo(name string, minutes int) {
	for _, m := range w.machines {
		if m.Name == name {
			at := metav1.NewTime(w.now.Add(-time.Duration(minutes) * time.Minute))
			m.DeletionTimestamp = &at
			w.stuck[name] = true
		}
	}
}

// outdated moves Machines to a set with another template and no replicas.
func (w *simulation) outdated(indices ...int) {
	if len(indices) == 0 {
		return
	}
	old := w.sets[0].DeepCopy()
	old.Name, old.UID, old.Spec.Template.Spec.Versions.Kubelet = old.Name+"-old", old.UID+"-old", "0"
	old.Spec.Replicas = new(int32)
	*w.sets[0].Spec.Replicas -= int32(len(indices))
	w.scale(*w.d.Spec.Replicas - int32(len(indices)))
	w.sets = append(w.sets, old)
	for _, i := range indices {
		w.machines[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(old, v1alpha1.MachineSetKind)}
	}
}

func TestWhichMachineReplacesADrainingMachine(t *testing.T) {
	for _, c := range []struct {
		name string
		// ages holds the ages of the Machines in minutes. deleted holds how long ago the draining Machines were deleted.
		ages    []int
		deleted map[int]int
		// old lists the Machines of a set with another template, which has no replicas any more.
		old    []int
		listed int
		want   []int
	}{
		{name: "there is no replacement when no Machine drains", ages: []int{100, 5, 1}, listed: -1},
		{name: "the replacement is the first Machine that was created after the draining Machine was deleted", ages: []int{100, 50, 9, 3}, deleted: map[int]int{0: 10}, listed: -1, want: []int{2}},
		{name: "the replacement is the Machine of another set that a rollout's surge created shortly before the draining Machine was deleted", ages: []int{100, 90, 14, 2}, deleted: map[int]int{0: 10}, old: []int{0}, listed: -1, want: []int{2}},
		{name: "a Machine of the draining Machine's own set is not the replacement when it was created before the deletion, because the set creates replacements only afterwards", ages: []int{20, 19, 18}, deleted: map[int]int{0: 10}, listed: -1},
		{name: "two draining Machines of the old set have one replacement when a surge created only one Machine", ages: []int{20, 12, 14}, deleted: map[int]int{0: 10, 1: 9}, old: []int{0, 1}, listed: -1, want: []int{2}},
		{name: "there is no replacement when all other Machines were created more than 30 minutes before the deletion, too early for a surge", ages: []int{100, 100, 90}, deleted: map[int]int{0: 10}, listed: -1},
		{name: "the replacement is a newer Machine, and not a Machine that is as old as the draining Machine", ages: []int{10, 10, 9}, deleted: map[int]int{0: 10}, listed: -1, want: []int{2}},
		{name: "a draining Machine in spec.removals has no replacement", ages: []int{100, 9}, deleted: map[int]int{0: 10}, listed: 0},
		{name: "the replacements of two draining Machines are the first two Machines that were created after their deletion", ages: []int{100, 100, 9, 8, 1}, deleted: map[int]int{0: 10, 1: 10}, listed: -1, want: []int{2, 3}},
		{name: "two draining Machines have one replacement when only one Machine was created after their deletion began", ages: []int{100, 100, 9}, deleted: map[int]int{0: 10, 1: 10}, listed: -1, want: []int{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := settled(shape{int32(len(c.ages)), "1", "0"})
			w.aged(c.ages...)
			names := make([]string, len(w.machines))
			for i, m := range w.machines {
				names[i] = m.Name
				if c.listed == i {
					w.d.Spec.Removals = append(w.d.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.NewTime(w.now)})
				}
			}
			for i, ago := range c.deleted {
				w.deletedAgo(names[i], ago)
			}
			w.outdated(c.old...)
			var want []string
			for _, i := range c.want {
				want = append(want, names[i])
			}
			p := must(Compute(w.snapshot()))
			slices.Sort(p.Replacements)
			if !slices.Equal(p.Replacements, want) {
				t.Errorf("%v replace draining Machines, want %v", p.Replacements, want)
			}
			if len(p.Rolled) != 0 {
				t.Errorf("%v are rolled without a rollout", p.Rolled)
			}
		})
	}
}

func TestDuringARolloutThePlanNamesNoNodeOfTheOldTemplateAsReplacementOfADrainingNode(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.aged(100, 50, 9)
	w.deletedAgo(w.machines[0].Name, 10)
	w.template("B")
	p := must(Compute(w.snapshot()))
	if len(p.Rolled) != 2 || len(p.Replacements) != 0 {
		t.Errorf("%v are rolled, %v replace", p.Rolled, p.Replacements)
	}
}

func TestAPlanNamesReplacementNodesOnlyForLongDrains(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	w.aged(100, 50, 0)
	w.deletedAgo(w.machines[0].Name, 0)
	t.Run("the plan names no replacement Node for a drain that has just begun (F-57)", func(t *testing.T) {
		if p := must(Compute(w.snapshot())); len(p.Replacements) != 0 || p.RequeueAfter <= 0 || p.RequeueAfter > shortDrain {
			t.Errorf("%v replace, next check after %v", p.Replacements, p.RequeueAfter)
		}
	})
	t.Run("the plan names the replacement Node when the drain has lasted for 30 s (F-57)", func(t *testing.T) {
		w.now = w.now.Add(shortDrain)
		if p := must(Compute(w.snapshot())); len(p.Replacements) != 1 {
			t.Errorf("%v replace", p.Replacements)
		}
	})
}

func TestAPlanListsLeavingNodes(t *testing.T) {
	t.Run("the plan lists the Nodes of Machines that are being deleted or in spec.removals as leaving (F-57)", func(t *testing.T) {
		w := settled(shape{4, "1", "0"})
		w.aged(100, 90, 80, 70)
		deleted, listed := w.machines[0], w.machines[1]
		w.deletedAgo(deleted.Name, 1)
		w.d.Spec.Removals = append(w.d.Spec.Removals, v1alpha1.Removal{Name: listed.Name, UID: listed.UID, Time: metav1.NewTime(w.now)})
		want := []string{deleted.Status.NodeRef.Name, listed.Status.NodeRef.Name}
		p := must(Compute(w.snapshot()))
		slices.Sort(p.Leaving)
		slices.Sort(want)
		if !slices.Equal(p.Leaving, want) {
			t.Errorf("%v leave, want %v", p.Leaving, want)
		}
	})
}
