package set

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// maxPerPass bounds how many Machines are made or deleted in one reconcile; the rest follows in the next.
const maxPerPass = 1000

// seen is what was observed of a set.
type seen struct {
	set *v1alpha1.MachineSet
	// machines are those that the set controls, deleting ones included. deleted holds those that were deleted although
	// the cache does not show it yet, unseen counts those that were made and that it does not show.
	machines []rollout.MachineFacts
	deleted  map[types.UID]bool
	unseen   int
	// availableIn is when the next Ready Machine becomes available; 0 is never.
	availableIn time.Duration
	// settleIn is when what was made or deleted, and is not shown so, is looked up live; 0 is never.
	settleIn time.Duration
}

// decision is what is to be done.
type decision struct {
	// wanted is the size that is followed; restore asks for writing it to spec.replicas.
	wanted  int
	restore bool
	remove  []*v1alpha1.Machine
	// surplus is how many of remove the set chose itself, because it has too many.
	surplus int
	create  int
}

// unmet is what this process has done to the Machines of a set and the cache does not show yet.
type unmet struct {
	// created counts the Machines that were made, deleted holds those that were deleted.
	created int
	deleted map[types.UID]bool
}

// observe returns what the cache shows of a set, together with what it does not show yet. removals are those of the set's spec.
func observe(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, removals []v1alpha1.Removal, open unmet, now time.Time) seen {
	s := seen{set: set, unseen: open.created, deleted: open.deleted}
	listed := map[types.UID]bool{}
	for _, list := range [][]v1alpha1.Removal{removals, set.Spec.RolloutRemovals} {
		for _, removal := range list {
			listed[removal.UID] = true
		}
	}
	for _, m := range machines {
		f := rollout.Facts(m, set.Spec.MinReadySeconds, now)
		f.Listed = listed[m.UID] || s.deleted[m.UID]
		s.machines = append(s.machines, f)
		if f.Living() && f.NodeReady && !f.Available {
			s.availableIn = ownership.Soonest(s.availableIn, rollout.AvailableAfter(m, set.Spec.MinReadySeconds, now))
		}
	}
	return s
}

// decide returns which Machines are deleted and how many are made. Listed Machines are deleted whatever the size is; only living
// ones are counted.
func decide(s seen) decision {
	var d decision
	var living []rollout.MachineFacts
	for _, f := range s.machines {
		switch {
		case f.Living():
			living = append(living, f)
		case f.Machine.DeletionTimestamp.IsZero() && !s.deleted[f.Machine.UID]:
			d.remove = append(d.remove, f.Machine)
		}
	}
	count := len(living) + s.unseen
	d.wanted, d.restore = wanted(s.set, count)
	switch surplus := count - d.wanted; {
	case surplus > 0:
		order := rollout.DeletionOrder(living, s.set.Spec.DeletePolicy, nil)
		d.surplus = min(surplus, len(order))
		d.remove = append(d.remove, order[:d.surplus]...)
	case surplus < 0 && !makesNone(s.set):
		d.create = -surplus
	}
	d.create = min(d.create, maxPerPass)
	d.remove = d.remove[:min(len(d.remove), maxPerPass)]
	return d
}

// makesNone reports whether a set makes no Machines although some are missing: it is an old one of an OnDelete deployment, or
// frozen (package machines/safety/freeze).
func makesNone(set *v1alpha1.MachineSet) bool {
	return set.Annotations[v1alpha1.AnnotationNoCreate] == "true" || set.Labels[v1alpha1.LabelFreeze] == v1alpha1.Frozen
}

// wanted returns the size to follow. A size that no writer sets is the number of Machines, and 1 for a new set.
func wanted(set *v1alpha1.MachineSet, living int) (size int, restore bool) {
	switch {
	case set.Spec.Replicas != nil:
		return int(*set.Spec.Replicas), false
	case set.Status.ObservedGeneration == 0:
		return 1, true
	}
	return living, true
}

// ceiling is how many living Machines a set of a size may have made: its own, and those that it released (MCM-35).
// Something is wrong beyond it, such as a program that takes the labels off every new Machine. Machines that are deleting
// do not count: after a large scale-down with slow drains a set must still be able to grow.
func ceiling(wanted int) int {
	const spare = 10
	return 2*wanted + spare
}

// underCeiling returns how many of a number of Machines the ceiling allows to be made. The error describes why they are fewer.
func underCeiling(create, wanted, released int) (int, error) {
	living := wanted - create
	left := max(0, ceiling(wanted)-living-released)
	if create <= left {
		return create, nil
	}
	return left, fmt.Errorf("making %d of %d Machines: the set released %d whose labels no longer matched, and with %d living ones the ceiling is %d; a released one counts until it goes or loses the annotation %s",
		left, create, released, living, ceiling(wanted), v1alpha1.AnnotationReleasedBy)
}
