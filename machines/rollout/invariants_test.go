package rollout

import (
	"math"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// recordSent records the UIDs of the Machines that the plan removes because of the rollout.
func (r *run) recordSent(_ Snapshot, p Plan) {
	for _, c := range p.Changes {
		for _, removal := range c.RolloutRemovals {
			r.sent[removal.UID] = true
		}
	}
}

// recordUnknown notes the Machines that the next plan takes for removed by a rollout, since their set has no record.
func (r *run) recordUnknown() {
	w := r.view()
	must(w.findCurrent())
	w.beginRecords()
	for _, s := range w.sets {
		for _, removal := range s.rolloutRemovals {
			r.sent[removal.UID] = true
		}
	}
}

// leaving counts the Machines that the rollout removed and that have a server or may get one.
func (r *run) leaving() (n int32) {
	for _, m := range r.machines {
		if r.sent[m.UID] && (m.DeletionTimestamp.IsZero() || (MachineFacts{Machine: m}).HasServer()) {
			n++
		}
	}
	return n
}

// mayMake holds each Machine that is made to what the last plan allows; decide holds the plan to replicas and surge.
func (r *run) mayMake(set *v1alpha1.MachineSet) {
	there := r.leaving()
	for _, s := range newWork(r.snapshot()).sets {
		there += int32(len(s.living))
	}
	if there > r.room {
		r.t.Fatalf("MC-17 %s makes the %dth Machine, %d were planned", set.Name, there, r.room)
	}
}

// decide makes a plan and checks it: living Machines and those that the rollout removed grow to replicas and surge at
// most, a size that lacks Machines waits for nothing else, and when the sets follow the plan, available Machines do not
// fall below the floor.
func (r *run) decide() {
	r.recordUnknown()
	before, availableBefore, sizesBefore := r.total(), r.availableInTheEnd(), r.view().sizes()
	replicas, l := *r.d.Spec.Replicas, must(r.limits())
	rolling, most := r.rollingNow(), r.mostReplacing()
	ceiling := replicas + l.surge
	all, old := r.byNumber()
	lacking := r.lacking(ceiling - before)
	p, _ := r.plan()
	if p.Replacing > most {
		r.t.Fatalf("%d Machines are in replacement, %d may be: %v", p.Replacing, most, p.Steps)
	}
	var added int32
	for _, s := range p.Steps {
		added += max(0, s.To-s.From)
	}
	after := r.total()
	if added > 0 && (rolling || r.leaving() > 0) && after > before && after > ceiling {
		r.t.Fatalf("MC-17 total grew from %d to %d beyond %d replicas and %d surge: %v", before, after, replicas, l.surge, p.Steps)
	}
	r.room = after
	shrank := max(0, sizesBefore-ceiling)
	if replicas == 0 {
		shrank = sizesBefore
	}
	allAfter, oldAfter := r.byNumber()
	if rolling && oldAfter-old > shrank {
		r.t.Fatalf("MC-17 old sets choose %d Machines themselves, the size takes %d: the rollout must name those it removes: %v", oldAfter-old, shrank, p.Steps)
	}
	if strategyOf(r.d) == v1alpha1.Recreate {
		r.checkRecreate(p)
		return
	}
	if added < lacking {
		r.t.Fatalf("MC-17 adds %d, but %d are lacking and fit below %d replicas and %d surge: %v", added, lacking, replicas, l.surge, p.Steps)
	}
	floor := min(availableBefore, replicas-l.unavailable)
	if after := r.availableInTheEnd(); after < floor && (allAfter == all || !r.marked()) {
		r.t.Fatalf("MC-16 of %d available %d are left, the floor is %d: %v", availableBefore, after, replicas-l.unavailable, p.Steps)
	}
}

// lacking returns how many Machines a plan must add: as many as the sets' sizes lack, if they fit. A plan that follows a
// smaller size leaves that to the next one.
func (r *run) lacking(room int32) int32 {
	w := r.view()
	w.replicas = *r.d.Spec.Replicas
	if r.d.Spec.Paused || w.shrank() {
		return 0
	}
	return min(w.replicas-w.sizes(), room)
}

// byNumber counts the Machines that sets will choose and delete because they have too many, in all sets and in the old
// ones.
func (r *run) byNumber() (all, old int32) {
	w := r.view()
	must(w.findCurrent())
	for _, s := range w.sets {
		n := max(0, int32(len(s.living))-s.size)
		if all += n; s != w.current {
			old += n
		}
	}
	return all, old
}

// checkRecreate holds that no new Machine is wanted as long as one of an old template exists.
func (r *run) checkRecreate(p Plan) {
	for _, m := range r.machines {
		old := m.Spec.Versions.Kubelet != r.d.Spec.Template.Spec.Versions.Kubelet
		for _, step := range p.Steps {
			if old && !r.d.Spec.Paused && step.To > step.From {
				r.t.Fatalf("MCM-19 %s exists: %v", m.Name, p.Steps)
			}
		}
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
	w.beginRecords()
	return max(w.replacing(), *r.brake) + named + max(0, w.replicas-w.sizes()) + max(0, w.sizes()-w.allowed())
}

// view is what the planner sees now, with the removals that it will hand to the sets.
func (r *run) view() *work {
	w := newWork(r.snapshot())
	w.shareRemovals()
	return w
}

// availableInTheEnd counts the Machines that are available and stay so when every set comes to its size, and when what
// is named goes.
func (r *run) availableInTheEnd() int32 { return r.view().available() }

// marked reports whether somebody marked a Machine: a set then deletes it before those that are not available.
func (r *run) marked() bool {
	return slices.ContainsFunc(r.machines, func(m *v1alpha1.Machine) bool { return m.Annotations[v1alpha1.AnnotationDeleteMachine] != "" })
}

// total counts what sets want or have, whichever is more, and the Machines that the rollout removed.
func (r *run) total() int32 {
	total := r.leaving()
	for _, s := range newWork(r.snapshot()).sets {
		total += max(s.size, int32(len(s.living)))
	}
	return total
}

// rollingNow reports whether a rollout goes on: Machines of an old template are left, and the deployment is not paused.
func (r *run) rollingNow() bool {
	w := r.view()
	if _, err := w.findCurrent(); err != nil {
		r.t.Fatal(err)
	}
	return !r.d.Spec.Paused && w.rolling()
}
