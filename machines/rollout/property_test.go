package rollout

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// run is a world under random events, with what must never happen watched at every step.
type run struct {
	*world
	t *rapid.T
	// named are Machines that a removal named.
	named map[string]bool
	// room is what all sets had or wanted, with what was leaving, when the last plan was made; lost counts Machines that
	// somebody else took since: their sets may make others at once.
	room, lost int32
}

func newRun(t *rapid.T, s shape) *run {
	r := &run{world: newWorld(s), t: t, named: map[string]bool{}}
	r.onMake = r.mayMake
	return r
}

// mayMake holds each Machine that is made to what the last plan allows; decide holds the plan to replicas and surge.
func (r *run) mayMake(set *v1alpha1.MachineSet) {
	var there int32
	for _, m := range r.machines {
		if m.DeletionTimestamp.IsZero() || (MachineFacts{Machine: m}).HasServer() {
			there++
		}
	}
	if there > r.room+r.lost {
		r.t.Fatalf("MC-17 %s makes the %dth Machine, %d were planned and %d lost since", set.Name, there, r.room, r.lost)
	}
}

// decide plans, and holds each plan to the rules: no growth beyond replicas and surge, leaving Machines included; and
// when the sets carry it out, available Machines do not fall below the floor.
func (r *run) decide() {
	before, availableBefore := r.total(), r.availableInTheEnd()
	replicas, l := *r.d.Spec.Replicas, must(r.limits())
	rolling, most := r.rollingNow(), r.mostReplacing()
	p, _ := r.plan()
	if p.Replacing > most {
		r.t.Fatalf("%d Machines are in replacement, %d may be: %v", p.Replacing, most, p.Steps)
	}
	grown := false
	for _, s := range p.Steps {
		grown = grown || s.To > s.From
	}
	if after := r.total(); grown && rolling && after > before && after > replicas+l.surge {
		r.t.Fatalf("MC-17 total grew from %d to %d beyond %d replicas and %d surge: %v", before, after, replicas, l.surge, p.Steps)
	}
	r.room, r.lost = r.total(), 0
	floor := min(availableBefore, replicas-l.unavailable)
	if after := r.availableInTheEnd(); after < floor && !r.marked() {
		r.t.Fatalf("MC-16 of %d available %d are left, the floor is %d: %v", availableBefore, after, replicas-l.unavailable, p.Steps)
	}
}

// mostReplacing is how many Machines may be in replacement after a plan: the cap or what is so already, and what a plan
// may move although it is no replacement, which are removals and a size that changed.
func (r *run) mostReplacing() int32 {
	if r.brake == nil {
		return math.MaxInt32
	}
	w := newWork(r.snapshot())
	named := w.shareRemovals()
	w.replicas, w.limits = *r.d.Spec.Replicas, must(r.limits())
	must(w.findCurrent())
	return max(w.replacing(), *r.brake) + named + max(0, w.replicas-w.sizes()) + max(0, w.sizes()-w.allowed())
}

// availableInTheEnd counts the Machines that are available and stay so when every set comes to its size, and when what
// is named goes.
func (r *run) availableInTheEnd() int32 {
	w := newWork(r.snapshot())
	w.shareRemovals()
	return w.available()
}

// marked says that somebody marked a Machine, which so goes even before those that are not available.
func (r *run) marked() bool {
	return slices.ContainsFunc(r.machines, func(m *v1alpha1.Machine) bool { return m.Annotations[v1alpha1.AnnotationDeleteMachine] != "" })
}

// total is what sets want or have, whichever is more, and what leaves with a server.
func (r *run) total() int32 {
	var total int32
	for _, s := range newWork(r.snapshot()).sets {
		total += s.occupied()
	}
	return total
}

// rollingNow says that something of an old template is there, a server at least, and that it is to be replaced.
func (r *run) rollingNow() bool {
	w := newWork(r.snapshot())
	w.shareRemovals()
	if _, err := w.findCurrent(); err != nil {
		r.t.Fatal(err)
	}
	return !r.d.Spec.Paused && w.rolling()
}

// actSafely lets a set act: what is named goes, and nothing beyond what is too many.
func (r *run) actSafely(set *v1alpha1.MachineSet) {
	chosen := uidsOf(set.Spec.Removals)
	r.act(set)
	var living int32
	for _, m := range r.of(set) {
		switch {
		case !m.DeletionTimestamp.IsZero():
		case chosen[m.UID]:
			r.t.Fatalf("CA-C88 %s is named and survives", m.Name)
		default:
			living++
		}
	}
	if living < *set.Spec.Replicas {
		r.t.Fatalf("%d are left of a set of %d", living, *set.Spec.Replicas)
	}
}

func (r *run) anyMachine() *v1alpha1.Machine {
	if len(r.machines) == 0 {
		return nil
	}
	return r.machines[rapid.IntRange(0, len(r.machines)-1).Draw(r.t, "machine")]
}

// event lets one thing happen.
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
		r.person(m)
	}
}

// person is what people and the autoscaler do.
func (r *run) person(m *v1alpha1.Machine) {
	switch rapid.IntRange(0, 5).Draw(r.t, "person") {
	case 0:
		r.template(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(r.t, "template"))
	case 1:
		r.scale(rapid.Int32Range(0, 6).Draw(r.t, "replicas"))
	case 2:
		if m != nil {
			r.delete(m)
			r.lost++
		}
	case 3:
		r.d.Spec.Paused = !r.d.Spec.Paused
	case 4:
		if m != nil {
			m.Annotations = map[string]string{v1alpha1.AnnotationDeleteMachine: "yes"}
		}
	case 5:
		r.now = r.now.Add(20 * time.Minute)
	}
}

// finish lets everything work again, and checks where it ends.
func (r *run) finish() {
	r.d.Spec.Paused = false
	for _, m := range r.machines {
		if m.Status.NodeRef != nil && m.DeletionTimestamp.IsZero() {
			r.ready(m, true)
		}
	}
	for rounds, moved := 0, true; moved && rounds < 400; rounds++ {
		state := r.state()
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
			r.t.Fatalf("CA-C80 %s was named and is still there", m.Name)
		}
	}
}

// state tells two rounds apart.
func (r *run) state() string { return fmt.Sprint(r.sizes(), len(r.machines), r.serial, len(r.deleted)) }

// scatter puts the world into any state: sets of any templates and sizes, Machines at any stage, some named, some
// leaving, some more than there should be.
func (r *run) scatter() {
	for _, name := range []string{"A", "B", "C"}[:rapid.IntRange(0, 3).Draw(r.t, "sets")] {
		r.template(name)
		r.decide()
		set := r.sets[len(r.sets)-1]
		set.Spec.Replicas = new(rapid.Int32Range(0, 4).Draw(r.t, "size"))
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
	}
	r.room, r.lost = r.total(), 0
}

func TestAnyOrderOfEvents(t *testing.T) {
	t.Run("MC-16 MC-17 MCM-7 MCM-8 CA-C80 CA-C88 from any state, in any order of events", anyOrder)
}

func anyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shape{
			replicas:    rapid.Int32Range(0, 6).Draw(t, "replicas"),
			surge:       rapid.SampledFrom([]string{"0", "1", "2", "25%", "100%"}).Draw(t, "surge"),
			unavailable: rapid.SampledFrom([]string{"0", "1", "2", "25%", "100%"}).Draw(t, "unavailable"),
		}
		r := newRun(t, s)
		if rapid.Bool().Draw(t, "scattered") {
			r.scatter()
		}
		if brake := rapid.Int32Range(0, 4).Draw(t, "brake"); brake > 0 {
			r.brake = &brake
		}
		for range rapid.IntRange(0, 120).Draw(t, "events") {
			r.event()
		}
		r.finish()
	})
}

// TestRemovalsOnly lets nothing but removals and growth happen to a settled deployment.
func TestRemovalsOnly(t *testing.T) {
	t.Run("CA-C66 CA-C82 CA-C88 MCM-32 exactly the named go", removalsOnly)
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
					t.Fatalf("%s went although nothing named it", name)
				}
			}
		}
		r.finish()
	})
}
