package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// removalAge is how long an entry stays in the list after its Machine is gone, so that a repeated request finds the entry.
const removalAge = 15 * time.Minute

// shareRemovals passes the entries of the deployment's list of removals on to the sets. It adds each entry to the list of the set that has
// the Machine, and lowers the size of that set by one. It skips entries that the set already has, because the size was lowered when they
// were added.
//
// A Machine whose deletion has already begun, or that the set has in excess of its size, no longer counts in the size. For such an entry,
// shareRemovals lowers the size only by replicas that have no Machine yet, and never below the number of living Machines, so that no other
// Machine is deleted instead (CA-C68).
//
// It returns by how much it lowered the sizes.
func (w *work) shareRemovals() int32 {
	var lowered int32
	if len(w.listed) == 0 {
		return 0
	}
	for _, s := range w.sets {
		own, present := uidsOf(s.removals), uidsIn(s.machines)
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

// listedRemovals returns spec.removals, together with the entries that a client's write has removed from it. These are still in
// remembered versions of spec.removals, or in the spec of a set to which they were passed on.
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

// remainingRemovals returns the set's list of removals without the entries that no longer have an effect: their Machine is gone, and the
// deployment's list does not have the entry any more. same is true when the list does not have to be written.
func (s *setWork) remainingRemovals(deployment []v1alpha1.Removal) (kept []v1alpha1.Removal, same bool) {
	if len(s.removals) == 0 {
		return nil, true
	}
	present, listed := uidsIn(s.machines), uidsOf(deployment)
	for _, r := range s.removals {
		if present[r.UID] || listed[r.UID] {
			kept = append(kept, r)
		}
	}
	return kept, len(kept) == len(s.set.Spec.Removals) && len(kept) == len(s.removals)
}

// PruneRemovals returns a list without the entries whose Machine has been gone for long enough. next is the time until another entry can
// be pruned; 0 means that there is none.
func PruneRemovals(list []v1alpha1.Removal, machines []*v1alpha1.Machine, now time.Time) (kept []v1alpha1.Removal, next time.Duration) {
	kept = []v1alpha1.Removal{}
	if len(list) == 0 {
		return kept, 0
	}
	present := uidsIn(machines)
	for _, r := range list {
		wait := r.Time.Add(removalAge).Sub(now)
		if !present[r.UID] && wait <= 0 {
			continue
		}
		kept = append(kept, r)
		if !present[r.UID] {
			next = Soonest(next, wait)
		}
	}
	return kept, next
}
