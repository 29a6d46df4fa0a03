package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// defaultPriority is the priority of a Machine whose annotation is missing or unreadable.
const defaultPriority = 3

// CheckDeletePolicy returns an error for a policy other than Random, Newest, Oldest and Default. The empty policy is valid and means
// Random.
func CheckDeletePolicy(policy v1alpha1.DeletePolicy) error {
	switch policy {
	case "", v1alpha1.DeleteRandom, v1alpha1.DeleteNewest, v1alpha1.DeleteOldest, v1alpha1.DeleteDefault:
		return nil
	}
	return fmt.Errorf("deletePolicy is %q: it must be Random, Newest, Oldest or Default", policy)
}

// DeletionOrder returns the Machines in the order in which a set deletes them when it has too many: first the Machines that are named in
// removals, then those with the delete-machine annotation, then those with the lowest priority annotation, then failed Machines and
// Machines without a Node, then those whose Node is not Ready, then those that are Ready but not yet available. The remaining ties are
// broken by the policy, and finally by name. Machines that are already being deleted are left out.
func DeletionOrder(machines []MachineFacts, policy v1alpha1.DeletePolicy, removals []v1alpha1.Removal) []*v1alpha1.Machine {
	ordered := make([]*v1alpha1.Machine, 0, len(machines))
	for _, f := range inDeletionOrder(machines, policy, removals) {
		ordered = append(ordered, f.Machine)
	}
	return ordered
}

// inDeletionOrder is [DeletionOrder] with the facts of the Machines.
func inDeletionOrder(machines []MachineFacts, policy v1alpha1.DeletePolicy, removals []v1alpha1.Removal) []MachineFacts {
	type ranked struct {
		MachineFacts
		rank [7]int64
	}
	listed := uidsOf(removals)
	all := make([]ranked, 0, len(machines))
	for _, f := range machines {
		if m := f.Machine; m.DeletionTimestamp.IsZero() {
			all = append(all, ranked{f, [7]int64{
				last(!listed[m.UID] && !f.Listed), last(!v1alpha1.FirstToDelete(m)), priorityOf(m),
				last(!f.Failed() && f.HasNode()), last(f.NodeReady), last(f.Available), rankByAge(m.CreationTimestamp.Time, policy),
			}})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(slices.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.Machine.Name, b.Machine.Name))
	})
	ordered := make([]MachineFacts, len(all))
	for i := range all {
		ordered[i] = all[i].MachineFacts
	}
	return ordered
}

// last returns a rank: Machines with the property are deleted after those without it.
func last(property bool) int64 {
	if property {
		return 1
	}
	return 0
}

func priorityOf(m *v1alpha1.Machine) int64 {
	if p, err := strconv.ParseInt(m.Annotations[v1alpha1.AnnotationPriority], 10, 64); err == nil {
		return p
	}
	return defaultPriority
}

// rankByAge returns a number for a Machine's age: the Machine with the lower number is deleted first. A Machine without a creation time
// counts as just created.
func rankByAge(created time.Time, policy v1alpha1.DeletePolicy) int64 {
	const justMade = 1 << 62
	at := int64(justMade)
	if !created.IsZero() {
		at = created.UnixNano()
	}
	switch policy {
	case v1alpha1.DeleteNewest, v1alpha1.DeleteDefault:
		return -at
	case v1alpha1.DeleteOldest:
		return at
	}
	return 0
}
