package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	ranked := rank(machines, policy, removals)
	ordered := make([]*v1alpha1.Machine, len(ranked))
	for i := range ranked {
		ordered[i] = machines[ranked[i].index].Machine
	}
	return ordered
}

// rank sorts the Machines that are not being deleted into the order of deletion.
func rank(machines []MachineFacts, policy v1alpha1.DeletePolicy, removals []v1alpha1.Removal) []ranking {
	listed := uidsOf(removals)
	ranked := make([]ranking, 0, len(machines))
	for i, f := range machines {
		if f.Machine.DeletionTimestamp.IsZero() {
			r := rankOf(f, policy, listed)
			r.index = i
			ranked = append(ranked, r)
		}
	}
	slices.SortFunc(ranked, compareRanking)
	return ranked
}

// ranking holds the criteria by which two Machines are compared, in this order. The Machine with the lower value is deleted first.
type ranking struct {
	index    int
	name     string
	keep     [2]bool // whether the Machine is not named for removal; whether it lacks the annotation delete-machine
	priority int
	healthy  [3]bool // whether the Machine has a Node and has not failed; whether it is Ready; whether it is available
	age      int64
}

func rankOf(f MachineFacts, policy v1alpha1.DeletePolicy, listed map[types.UID]bool) ranking {
	m := f.Machine
	return ranking{
		name:     m.Name,
		keep:     [2]bool{!listed[m.UID] && !f.Listed, !v1alpha1.FirstToDelete(m)},
		priority: priorityOf(m),
		healthy:  [3]bool{!f.Failed() && f.HasNode(), f.NodeReady, f.Available},
		age:      rankByAge(m.CreationTimestamp.Time, policy),
	}
}

func compareRanking(a, b ranking) int {
	return cmp.Or(
		compareBool(a.keep[0], b.keep[0]),
		compareBool(a.keep[1], b.keep[1]),
		cmp.Compare(a.priority, b.priority),
		compareBool(a.healthy[0], b.healthy[0]),
		compareBool(a.healthy[1], b.healthy[1]),
		compareBool(a.healthy[2], b.healthy[2]),
		cmp.Compare(a.age, b.age),
		cmp.Compare(a.name, b.name),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func priorityOf(m *v1alpha1.Machine) int {
	value, ok := m.Annotations[v1alpha1.AnnotationPriority]
	if !ok {
		return defaultPriority
	}
	if p, err := strconv.Atoi(value); err == nil {
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
