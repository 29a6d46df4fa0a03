package set

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// maxPerPass bounds how many Machines are made or deleted in one look at a set; the rest follows in the next.
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

// observe puts together what the cache shows and what this process has done already.
func (r *Reconciler) observe(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) seen {
	now := r.clock.Now()
	s := seen{set: set}
	s.unseen, s.deleted = r.pending.of(set)
	listed := map[types.UID]bool{}
	for _, list := range [][]v1alpha1.Removal{r.removals(set), set.Spec.RolloutRemovals} {
		for _, removal := range list {
			listed[removal.UID] = true
		}
	}
	for _, m := range machines {
		f := rollout.Facts(m, set.Spec.MinReadySeconds, now)
		f.Listed = listed[m.UID] || s.deleted[m.UID]
		s.machines = append(s.machines, f)
		if f.Living() && f.NodeReady && !f.Available {
			s.availableIn = soonest(s.availableIn, rollout.AvailableAfter(m, set.Spec.MinReadySeconds, now))
		}
	}
	return s
}

// plan decides what to do with a set. The first decision of this process to make Machines, or to choose Machines for
// deletion, is made again when the API server shows something that the cache does not.
func (r *Reconciler) plan(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (seen, decision, error) {
	wait, err := r.settlePending(ctx, set, machines)
	if err != nil {
		return seen{}, decision{}, err
	}
	s := r.observe(set, machines)
	d := decide(s)
	if d.create > 0 || d.surplus > 0 {
		news, err := r.lookOnce(ctx, set, machines)
		if err != nil {
			return seen{}, decision{}, err
		}
		if news {
			s = r.observe(set, machines)
			d = decide(s)
		}
	}
	s.settleIn = wait
	return s, d, nil
}

// decide says which Machines go and how many are made. Listed Machines go whatever the size is; only living ones are
// counted.
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
	case surplus < 0 && s.set.Annotations[v1alpha1.AnnotationNoCreate] != "true":
		d.create = -surplus
	}
	d.create = min(d.create, maxPerPass)
	d.remove = d.remove[:min(len(d.remove), maxPerPass)]
	return d
}

// wanted is the size to follow. A size that no writer gives is the one that there is, and 1 for a new set.
func wanted(set *v1alpha1.MachineSet, living int) (size int, restore bool) {
	switch {
	case set.Spec.Replicas != nil:
		return int(*set.Spec.Replicas), false
	case set.Status.ObservedGeneration == 0:
		return 1, true
	}
	return living, true
}
