package rollout

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Unfulfilled returns the living Machines that are not nodes yet, in the order in which a smaller size deletes them: first Machines
// without a server, then failed Machines, then Machines whose server has no Node. Within each of these groups the newest come first,
// then the order is by name. Unfulfilled never returns a Machine whose Node is registered. Replicas that have no Machine yet come
// before all these Machines; the caller counts such replicas.
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

// advance returns how far a Machine without a Node has progressed.
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
