package rollout

import (
	"math"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// recordSent records the UIDs of the Machines that the plan removes for the rollout.
func (r *run) recordSent(_ Snapshot, p Plan) {
	for _, c := range p.Changes {
		for _, removal := range c.RolloutRemovals {
			r.sent[removal.UID] = true
		}
	}
}

// recordUnknown records the Machines that the next plan counts as removed by a rollout because their set has no record.
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
		if r.sent[m.UID] && (m.DeletionTimestamp.IsZero() || hasServer(m)) {
			n++
		}
	}
	return n
}

// mayMake checks after each creation that there are no more Machines than the last plan allowed. The plan itself is checked in decide.
func (r *run) mayMake(set *v1alpha1.MachineSet) {
	there := r.leaving()
	for _, s := range newWork(r.snapshot()).sets {
		there += int32(len(s.living))
	}
	if there > r.room {
		r.t.Fatalf("%s creates the %dth Machine, %d were planned (MC-17)", set.Name, there, r.room)
	}
}

// decide makes a plan and checks three rules. The number of Machines that are living or were removed by the rollout does not grow beyond
// replicas plus surge. Within this limit, the plan adds missing Machines at once. When the sets have followed the plan, the number of
// available Machines is not below replicas minus maxUnavailable.
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
		r.t.Fatalf("%d Machines are in replacement, the limit is %d: %v", p.Replacing, most, p.Steps)
	}
	var added int32
	for _, s := range p.Steps {
		added += max(0, s.To-s.From)
	}
	after := r.total()
	if added > 0 && (rolling || r.leaving() > 0) && after > before && after > ceiling {
		r.t.Fatalf("the total grew from %d to %d beyond %d replicas and %d surge (MC-17): %v", before, after, replicas, l.surge, p.Steps)
	}
	r.room = after
	shrank := max(0, sizesBefore-ceiling)
	if replicas == 0 {
		shrank = sizesBefore
	}
	allAfter, oldAfter := r.byNumber()
	if rolling && oldAfter-old > shrank {
		r.t.Fatalf("old sets choose %d Machines themselves, the size takes %d: the rollout must name those it removes (MC-17): %v", oldAfter-old, shrank, p.Steps)
	}
	if strategyOf(r.d) == v1alpha1.Recreate {
		r.checkRecreate(p)
		return
	}
	if added < lacking {
		r.t.Fatalf("the plan adds %d, but %d are lacking and fit within %d replicas and %d surge (MC-17): %v", added, lacking, replicas, l.surge, p.Steps)
	}
	floor := min(availableBefore, replicas-l.unavailable)
	if after := r.availableInTheEnd(); after < floor && (allAfter == all || !r.marked()) {
		r.t.Fatalf("of %d available Machines %d are left, the floor is %d (MC-16): %v", availableBefore, after, replicas-l.unavailable, p.Steps)
	}
}

// lacking returns how many Machines a plan must add: the deployment's size minus the sizes of the sets, but at most the given room. A plan
// for a lowered size adds no Machines; the next plan adds the missing ones.
func (r *run) lacking(room int32) int32 {
	w := r.view()
	w.replicas = *r.d.Spec.Replicas
	if r.d.Spec.Paused || w.shrank() {
		return 0
	}
	return min(w.replicas-w.sizes(), room)
}

// byNumber counts the Machines that the sets have beyond their sizes. The sets delete that number of Machines and choose them on their own.
// all is the number in all sets, and old is the number in the old sets.
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

// checkRecreate checks that the plan creates no new Machine while a Machine of an old template exists.
func (r *run) checkRecreate(p Plan) {
	for _, m := range r.machines {
		old := m.Spec.Versions.Kubelet != r.d.Spec.Template.Spec.Versions.Kubelet
		for _, step := range p.Steps {
			if old && !r.d.Spec.Paused && step.To > step.From {
				r.t.Fatalf("%s exists (MCM-19): %v", m.Name, p.Steps)
			}
		}
	}
}

// mostReplacing returns how many Machines may be in replacement after a plan. That is the limit, or the present number if that is larger.
// Removals and changes of the size are not limited, so the number of Machines that they concern is added.
func (r *run) mostReplacing() int32 {
	if r.limit == nil {
		return math.MaxInt32
	}
	w := newWork(r.snapshot())
	named := w.shareRemovals()
	w.replicas, w.limits = *r.d.Spec.Replicas, must(r.limits())
	must(w.findCurrent())
	w.beginRecords()
	return max(w.replacing(), *r.limit) + named + max(0, w.replicas-w.sizes()) + max(0, w.sizes()-w.allowed())
}

// view returns the state of the sets as the planner computes it, with the deployment's removals already passed on to the sets.
func (r *run) view() *work {
	w := newWork(r.snapshot())
	w.shareRemovals()
	return w
}

// availableInTheEnd counts the Machines that are available and remain when every set has its size and the named Machines are gone.
func (r *run) availableInTheEnd() int32 { return r.view().available() }

// marked reports whether a Machine has the annotation delete-machine. A set deletes such a Machine before those that are not available.
func (r *run) marked() bool {
	return slices.ContainsFunc(r.machines, func(m *v1alpha1.Machine) bool { return m.Annotations[v1alpha1.AnnotationDeleteMachine] != "" })
}

// total counts the Machines that sets want or have, whichever number is larger, and the Machines that the rollout removed.
func (r *run) total() int32 {
	total := r.leaving()
	for _, s := range newWork(r.snapshot()).sets {
		total += max(s.size, int32(len(s.living)))
	}
	return total
}

// rollingNow reports whether a rollout continues: Machines of an old template are left, and the deployment is not paused.
func (r *run) rollingNow() bool {
	w := r.view()
	if _, err := w.findCurrent(); err != nil {
		r.t.Fatal(err)
	}
	return !r.d.Spec.Paused && w.rolling()
}
