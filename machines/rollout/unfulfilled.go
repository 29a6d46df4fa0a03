package rollout

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Unfulfilled returns the living Machines that are promises only, in the order in which a promise is taken back: those
// without a server, then failed ones, then those whose server has no Node; inside each the newest first, then by name.
// A Machine whose Node is registered is never among them. (Replicas that have no Machine at all come before all of
// these; they are not Machines, and the caller counts them.)
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
