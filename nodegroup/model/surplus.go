package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Hiding is the reason why a Machine does not count in the size and is shown as Deleting.
type Hiding string

// The reasons.
const (
	// HiddenListed is the reason for a Machine that spec.removals names.
	HiddenListed Hiding = "listed for removal"
	// HiddenDeleting is the reason for a Machine that is being deleted, or that a rollout has chosen for deletion.
	HiddenDeleting Hiding = "being deleted"
	// HiddenSurplus is the reason for a Machine that exceeds the size and will be deleted.
	HiddenSurplus Hiding = "surplus"
)

// hideRemoved hides Machines that are being deleted, Machines that a rollout removes, and Machines that are listed by UID for
// removal, in the group's object or in one of its sets.
func (g *Group) hideRemoved(ix *membership.Index, sets []*v1alpha1.MachineSet) {
	g.Hidden = map[types.UID]Hiding{}
	for _, m := range g.Members {
		if !m.Machine.DeletionTimestamp.IsZero() {
			g.Hidden[m.UID()] = HiddenDeleting
		}
	}
	for _, set := range sets {
		g.hideNamed(ix, set.Spec.RolloutRemovals, HiddenDeleting)
	}
	g.hideNamed(ix, g.Owner.Removals, HiddenListed)
	for _, set := range sets {
		g.hideNamed(ix, set.Spec.Removals, HiddenListed)
	}
}

// hideNamed hides the members that a list of removals names.
func (g *Group) hideNamed(ix *membership.Index, removals []v1alpha1.Removal, why Hiding) {
	for _, r := range removals {
		if m := ix.Member(r.UID); m != nil && ix.GroupOf(m) == g.ID {
			g.Hidden[r.UID] = why
		}
	}
}

// hideSurplus hides Machines from the autoscaler until the living Machines that it sees are no more than the size. It first hides
// Machines whose node has not started. So a rollout that is stuck at a new Machine costs no working node, and the autoscaler does
// not take a late node for a failed scale-up. Next it hides Machines of an older template. Among equal Machines, the order is
// that in which a shrinking set deletes Machines.
func (g *Group) hideSurplus() {
	living := int32(len(g.Members) - len(g.Hidden))
	if rollout.CheckSize(g.Owner.Replicas) != nil {
		// The controllers neither create nor delete Machines for a size above v1alpha1.MaxReplicas, so all existing Machines count as
		// wanted.
		g.Target = living
	}
	g.Gap = max(0, g.Target-living)
	surplus := int(living - g.Target)
	if surplus <= 0 {
		return
	}
	for _, class := range g.classes() {
		if surplus == 0 {
			return
		}
		if surplus < len(class) {
			class = inDeletionOrder(class, policyOf(g.Newest))[:surplus]
		}
		for _, m := range class {
			g.Hidden[m.UID()] = HiddenSurplus
		}
		surplus -= len(class)
	}
}

// classes returns the members that count in the size, in four classes. Members of an earlier class are hidden as surplus before
// those of a later class. The classes are: not started and of an older template; not started and of the current template; started
// and of an older template; started and of the current template.
func (g *Group) classes() (classes [4][]*membership.Member) {
	for _, m := range g.Members {
		if !g.Counts(m) {
			continue
		}
		class := 0
		if m.Registered() && !m.Starting() {
			class = 2
		}
		if m.In(g.Newest) {
			class++
		}
		classes[class] = append(classes[class], m)
	}
	return classes
}

// inDeletionOrder sorts members in the order in which they are deleted: first Machines without a node, in the order in which
// DecreaseTargetSize removes them, then the others in the order of the set's delete policy.
func inDeletionOrder(members []*membership.Member, policy v1alpha1.DeletePolicy) []*membership.Member {
	return ordered(members, func(facts []rollout.MachineFacts) []*v1alpha1.Machine {
		return slices.Concat(rollout.Unfulfilled(facts), rollout.DeletionOrder(facts, policy, nil))
	})
}

// ordered returns the members whose Machines order returns, each once and in that order.
func ordered(members []*membership.Member, order func([]rollout.MachineFacts) []*v1alpha1.Machine) []*membership.Member {
	facts := make([]rollout.MachineFacts, 0, len(members))
	byUID := make(map[types.UID]*membership.Member, len(members))
	for _, m := range members {
		facts = append(facts, m.Facts)
		byUID[m.UID()] = m
	}
	sorted := make([]*membership.Member, 0, len(members))
	for _, m := range order(facts) {
		if next := byUID[m.UID]; next != nil {
			sorted = append(sorted, next)
			delete(byUID, m.UID)
		}
	}
	return sorted
}

func policyOf(s *v1alpha1.MachineSet) v1alpha1.DeletePolicy {
	if s == nil {
		return v1alpha1.DeleteRandom
	}
	return s.Spec.DeletePolicy
}
