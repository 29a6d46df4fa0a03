package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// removalAge is how long an entry outlives its Machine, so that a repeated request finds it.
const removalAge = 15 * time.Minute

// shareRemovals hands each set its part of the deployment's list: a listed Machine goes onto its set's own list, and
// the set's size goes down by it. An entry that the set has already was counted in the write that brought it there.
//
// One that somebody has deleted before, or that was too many, does not count in the size any more. Then the size goes down
// by what is to be made yet, and never below the Machines that live: no other goes for it (CA-C68).
//
// It returns by how much the sizes went down.
func (w *work) shareRemovals() int32 {
	var lowered int32
	if len(w.listed) == 0 {
		return 0
	}
	for _, s := range w.sets {
		own, present := uidsOf(s.removals), s.uids()
		removals := s.removals[:len(s.removals):len(s.removals)]
		for _, r := range w.listed {
			if present[r.UID] && !own[r.UID] {
				removals = append(removals, r)
			}
		}
		share := int32(len(removals) - len(s.removals))
		if share == 0 {
			continue
		}
		s.removals = removals
		size := max(0, s.size-share, min(s.size, int32(len(s.living))))
		lowered += s.size - size
		w.resize(s, size, fmt.Sprintf("%d of its Machines are to be removed", share))
	}
	return lowered
}

// listedRemovals returns spec.removals with the entries that a client dropped from it: those that are remembered, and those
// that were handed to a set.
func listedRemovals(s Snapshot) []v1alpha1.Removal {
	listed := v1alpha1.MergeRemovals(s.Deployment.Spec.Removals, s.Named)
	for _, state := range s.Sets {
		if state.Set.DeletionTimestamp.IsZero() {
			listed = v1alpha1.MergeRemovals(listed, state.Set.Spec.Removals)
		}
	}
	return listed
}

// SameRemovals reports whether two lists have the same entries in the same order.
func SameRemovals(a, b []v1alpha1.Removal) bool {
	return slices.EqualFunc(a, b, func(a, b v1alpha1.Removal) bool { return a.Name == b.Name && a.UID == b.UID })
}

func (s *setWork) uids() map[types.UID]bool {
	uids := make(map[types.UID]bool, len(s.machines))
	for _, m := range s.machines {
		uids[m.UID] = true
	}
	return uids
}

// keptRemovals is the set's list without the entries that mean nothing any more: the Machine is gone and the deployment
// has dropped the entry too. same reports that nothing is to be written.
func (s *setWork) keptRemovals(deployment []v1alpha1.Removal) (kept []v1alpha1.Removal, same bool) {
	if len(s.removals) == 0 {
		return nil, true
	}
	present, listed := s.uids(), uidsOf(deployment)
	for _, r := range s.removals {
		if present[r.UID] || listed[r.UID] {
			kept = append(kept, r)
		}
	}
	return kept, len(kept) == len(s.set.Spec.Removals) && len(kept) == len(s.removals)
}

// PruneRemovals is a list without the entries whose Machine is gone and whose time is over, and how long it takes until
// the next one is due (0: none is waiting).
func PruneRemovals(list []v1alpha1.Removal, machines []*v1alpha1.Machine, now time.Time) (kept []v1alpha1.Removal, next time.Duration) {
	kept = []v1alpha1.Removal{}
	if len(list) == 0 {
		return kept, 0
	}
	present := make(map[types.UID]bool, len(machines))
	for _, m := range machines {
		present[m.UID] = true
	}
	for _, r := range list {
		wait := r.Time.Add(removalAge).Sub(now)
		if !present[r.UID] && wait <= 0 {
			continue
		}
		kept = append(kept, r)
		if !present[r.UID] {
			next = soonest(next, wait)
		}
	}
	return kept, next
}

func (w *work) machines() []*v1alpha1.Machine {
	var all []*v1alpha1.Machine
	for _, s := range w.sets {
		all = append(all, s.machines...)
	}
	return all
}
