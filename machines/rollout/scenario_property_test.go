package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// run is a simulation under random events. Every step is checked against the invariants.
type run struct {
	*simulation
	t *rapid.T
	// named holds the names of the Machines that a removal has named. sent holds the UIDs of the Machines that plans have removed for the
	// rollout, even when no spec.rolloutRemovals contains them any more.
	named map[string]bool
	sent  map[types.UID]bool
	// room is how many Machines may exist after the last plan: living Machines, those that sets still create, and those that the rollout
	// removed.
	room int32
}

func newRun(t *rapid.T, s shape) *run {
	r := &run{simulation: newSimulation(s), t: t, named: map[string]bool{}, sent: map[types.UID]bool{}}
	r.onMake, r.onPlan = r.mayMake, r.recordSent
	return r
}

// actSafely makes a set act, and checks that the set deletes only named and surplus Machines.
func (r *run) actSafely(set *v1alpha1.MachineSet) {
	chosen := uidsOf(append(slices.Clone(set.Spec.Removals), set.Spec.RolloutRemovals...))
	available, made, deleted := r.availableInTheEnd(), r.made, len(r.deleted)
	listed := r.listed(set, chosen)
	r.act(set)
	if after := r.availableInTheEnd(); after < available && !r.unshared() {
		r.t.Fatalf("%s deletes other Machines than the planner expected: of %d available %d are left (MC-16)", set.Name, available, after)
	}
	var living int32
	for _, m := range r.of(set) {
		switch {
		case !m.DeletionTimestamp.IsZero():
		case chosen[m.UID]:
			r.t.Fatalf("%s is named and still living (CA-C88)", m.Name)
		default:
			living++
		}
	}
	if why, _ := UndecidedSize(set); why != "" {
		if r.made > made || len(r.deleted) > deleted+listed {
			r.t.Fatalf("%s creates %d Machines and deletes %d, of which %d are named (F-162): %s", set.Name, r.made-made, len(r.deleted)-deleted, listed, why)
		}
		return
	}
	if living < *set.Spec.Replicas {
		r.t.Fatalf("%d are left of a set of %d", living, *set.Spec.Replicas)
	}
}

// listed counts the Machines of a set that are chosen and not being deleted yet.
func (r *run) listed(set *v1alpha1.MachineSet, chosen map[types.UID]bool) (n int) {
	for _, m := range r.of(set) {
		if m.DeletionTimestamp.IsZero() && chosen[m.UID] {
			n++
		}
	}
	return n
}

// unshared reports whether the deployment lists a removal that no set has yet. Until a set has it, a set with too many Machines picks the
// Machines to delete on its own.
func (r *run) unshared() bool {
	return slices.ContainsFunc(r.view().sets, func(s *setWork) bool { return len(s.removals) > len(s.set.Spec.Removals) })
}

func (r *run) anyMachine() *v1alpha1.Machine {
	if len(r.machines) == 0 {
		return nil
	}
	return r.machines[rapid.IntRange(0, len(r.machines)-1).Draw(r.t, "machine")]
}

// event makes one random event happen.
func (r *run) event() {
	m := r.anyMachine()
	switch what := rapid.IntRange(0, 11).Draw(r.t, "event"); {
	case what <= 2:
		r.decide()
	case what <= 5 && len(r.sets) > 0:
		r.actSafely(r.sets[rapid.IntRange(0, len(r.sets)-1).Draw(r.t, "set")])
	case what <= 8 && m != nil:
		r.advance(m)
	case what == 9 && m != nil && m.DeletionTimestamp.IsZero() && *r.d.Spec.Replicas > 0 && !r.named[m.Name]:
		r.named[m.Name] = true
		r.remove(m)
	case what == 10 && m != nil && m.Status.NodeRef != nil:
		r.ready(m, rapid.Bool().Draw(r.t, "ready"))
	case what == 11:
		r.operator(m)
	}
}

// operator makes one change of the kind that an operator or the autoscaler makes.
func (r *run) operator(m *v1alpha1.Machine) {
	switch rapid.IntRange(0, 7).Draw(r.t, "person") {
	case 0:
		r.template(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(r.t, "template"))
	case 1:
		r.scale(rapid.Int32Range(0, 6).Draw(r.t, "replicas"))
	case 2:
		if m != nil {
			r.delete(m)
		}
	case 3:
		r.d.Spec.Paused = !r.d.Spec.Paused
	case 4:
		if m != nil {
			m.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "yes"}
		}
	case 5:
		r.now = r.now.Add(20 * time.Minute)
	case 6:
		r.now = r.now.Add(20 * time.Second)
	case 7:
		r.scaleSet()
	}
}

// scaleSet writes another size into a set, as a person or an HPA does (F-162).
func (r *run) scaleSet() {
	if len(r.sets) == 0 {
		return
	}
	set := r.sets[rapid.IntRange(0, len(r.sets)-1).Draw(r.t, "scaled set")]
	set.Spec.Replicas = new(rapid.Int32Range(0, 6).Draw(r.t, "size of a set"))
	set.Generation++
}

// finish ends the pause, makes all Nodes Ready, lets the rollout end, and checks the final state.
func (r *run) finish() {
	r.d.Spec.Paused = false
	for _, m := range r.machines {
		if m.Status.NodeRef != nil && m.DeletionTimestamp.IsZero() {
			r.ready(m, true)
		}
	}
	for rounds, moved := 0, true; moved && rounds < 400; rounds++ {
		state := r.state()
		r.now = r.now.Add(seconds(minReadySeconds(r.d)))
		r.decide()
		for _, set := range r.sets {
			r.actSafely(set)
		}
		moved = false
		for _, m := range slices.Clone(r.machines) {
			moved = r.advance(m) || moved
		}
		moved = moved || r.state() != state
	}
	living, available, leaving := r.count()
	want := *r.d.Spec.Replicas
	if living != want || available != want || leaving != 0 {
		var log strings.Builder
		for _, m := range r.machines {
			fmt.Fprintf(&log, "%s deleting=%v node=%v\n", m.Name, m.DeletionTimestamp, m.Status.NodeRef != nil)
		}
		r.t.Fatalf("does not converge: %d living, %d available, %d leaving, %d wanted, sizes %s\n%s", living, available, leaving, want, r.sizes(), log.String())
	}
	for _, m := range r.machines {
		if m.Spec.Versions.Kubelet != r.d.Spec.Template.Spec.Versions.Kubelet {
			r.t.Fatalf("%s is still of an old template", m.Name)
		}
		if r.named[m.Name] {
			r.t.Fatalf("%s was named and still exists (CA-C80)", m.Name)
		}
	}
}

// state returns a text that is different after every change.
func (r *run) state() string {
	state := fmt.Sprint(r.sizes(), len(r.machines), r.serial, len(r.deleted))
	for _, set := range r.sets {
		state += fmt.Sprint(" ", set.Status.ObservedGeneration)
	}
	return state
}

// scatter puts the simulation into a random state: sets of any templates and sizes, Machines at any stage, some named, some leaving, some
// surplus.
func (r *run) scatter() {
	for _, name := range []string{"A", "B", "C"}[:rapid.IntRange(0, 3).Draw(r.t, "sets")] {
		r.template(name)
		r.decide()
		set := r.sets[len(r.sets)-1]
		set.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(r.t, "size"))
		delete(set.Annotations, v1alpha1.AnnotationDecided)
		if err := Decide(set); err != nil {
			r.t.Fatal(err)
		}
		for range rapid.IntRange(0, 5).Draw(r.t, "machines") {
			r.make(set)
			m := r.machines[len(r.machines)-1]
			for range rapid.IntRange(0, 2).Draw(r.t, "stage") {
				r.advance(m)
			}
			if rapid.IntRange(0, 4).Draw(r.t, "leaving") == 0 {
				r.delete(m)
			}
		}
		if rapid.IntRange(0, 4).Draw(r.t, "without a record") == 0 {
			delete(set.Annotations, v1alpha1.AnnotationRolloutRecord)
		}
	}
	r.room = r.total()
}

func TestARolloutDuringWhichEventsHappenInAnyOrder(t *testing.T) {
	t.Run("the number of Machines stays within maxSurge and maxUnavailable, and the rollout completes (MC-16, MC-17, MCM-7, MCM-8, CA-C80, CA-C88)", anyOrder)
}

func anyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{
			replicas:    rapid.Int32Range(0, 6).Draw(t, "replicas"),
			surge:       rapid.SampledFrom([]string{"0", "1", "2", "25%", "100%"}).Draw(t, "surge"),
			unavailable: rapid.SampledFrom([]string{"0", "1", "2", "25%", "100%"}).Draw(t, "unavailable"),
		}
		r := newRun(t, s)
		r.d.Spec.MinReadySeconds = new(rapid.SampledFrom([]int32{0, 30}).Draw(t, "minReadySeconds"))
		if rapid.IntRange(0, 3).Draw(t, "Recreate") == 0 {
			r.d.Spec.Strategy.Type = v1alpha1.Recreate
		}
		if rapid.Bool().Draw(t, "scattered") {
			r.scatter()
		}
		if brake := rapid.Int32Range(0, 4).Draw(t, "brake"); brake > 0 {
			r.limit = &brake
		}
		for range rapid.IntRange(0, 120).Draw(t, "events") {
			r.event()
		}
		r.finish()
	})
}

// TestRemovalsWithoutARollout applies only removals and growth to a deployment without a rollout.
func TestRemovalsWithoutARollout(t *testing.T) {
	t.Run("exactly the Machines in spec.removals are deleted (CA-C66, CA-C82, CA-C88, MCM-32)", removalsOnly)
}

func removalsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(t, shape{rapid.Int32Range(1, 8).Draw(t, "replicas"), "1", "0"})
		r.onMake = nil
		r.settle(&strings.Builder{})
		r.onMake, r.room = r.mayMake, r.total()
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			m := r.anyMachine()
			switch what := rapid.IntRange(0, 7).Draw(t, "event"); {
			case what <= 1:
				r.decide()
			case what <= 3:
				r.actSafely(r.sets[0])
			case what == 4 && m != nil:
				r.advance(m)
			case what <= 6 && m != nil && *r.d.Spec.Replicas > 0 && m.DeletionTimestamp.IsZero() && !r.named[m.Name]:
				r.named[m.Name] = true
				r.remove(m)
			case what == 7:
				r.scale(*r.d.Spec.Replicas + 1)
			}
			for name := range r.deleted {
				if !r.named[name] {
					t.Fatalf("%s was deleted although nothing named it", name)
				}
			}
		}
		r.finish()
	})
}
