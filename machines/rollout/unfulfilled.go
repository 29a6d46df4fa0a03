package rollout

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Unfulfilled returns the living Machines that are not nodes yet, in the order in which a smaller size deletes them: those without a
// server, then failed ones, then those whose server has no Node; in each of these the newest first, then by name. It never returns a
// Machine whose Node is registered. (Replicas that have no Machine yet come before all of these. They are not Machines, and the caller
// counts them.)
func Unfulfilled(machines []MachineFacts) []*v1alpha1.Machine {
	var open []MachineFacts
	for _, f := range machines {
		if f.Living() && !f.HasNode() {
			open = append(open, f)
		}
	}
	slices.SortFunc(open, func(a, b MachineFacts) int {
		return cmp.Or(
			cmp.Compare(advance(a), advance(b)),
			cmp.Compare(newestFirst(a), newestFirst(b)),
			cmp.Compare(a.Machine.Name, b.Machine.Name),
		)
	})
	result := make([]*v1alpha1.Machine, len(open))
	for i, f := range open {
		result[i] = f.Machine
	}
	return result
}

// advance returns how far a Machine without a Node has come.
func advance(f MachineFacts) int {
	switch {
	case !f.HasServer():
		return 0
	case f.Failed():
		return 1
	}
	return 2
}

func newestFirst(f MachineFacts) int64 {
	return rankByAge(f.Machine.CreationTimestamp.Time, v1alpha1.DeleteNewest)
}
