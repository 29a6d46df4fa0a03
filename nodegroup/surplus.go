package nodegroup

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// hiding is why a Machine does not count and is shown as Deleting.
type hiding string

const (
	// hiddenListed: it is named in spec.removals.
	hiddenListed hiding = "listed for removal"
	// hiddenDeleting: it is being deleted, or a rollout has named it and its set deletes it next.
	hiddenDeleting hiding = "being deleted"
	// hiddenSurplus: there are more Machines than the size, and it is one of those that will be deleted.
	hiddenSurplus hiding = "surplus"
)

// hideRemoved hides what is being deleted, what a rollout removes, and what is listed for removal, by UID, in the group's
// object or in one of its sets.
func (g *group) hideRemoved(ix *index, sets []*v1alpha1.MachineSet) {
	g.hidden = map[types.UID]hiding{}
	for _, m := range g.members {
		if !m.machine.DeletionTimestamp.IsZero() {
			g.hidden[m.uid()] = hiddenDeleting
		}
	}
	for _, set := range sets {
		g.hideNamed(ix, set.Spec.RolloutRemovals, hiddenDeleting)
	}
	g.hideNamed(ix, g.owner.removals, hiddenListed)
	for _, set := range sets {
		g.hideNamed(ix, set.Spec.Removals, hiddenListed)
	}
}

// hideNamed hides the members that a list of removals names.
func (g *group) hideNamed(ix *index, removals []v1alpha1.Removal, why hiding) {
	for _, r := range removals {
		if m := ix.member(r.UID); m != nil && g.members.has(m) {
			g.hidden[r.UID] = why
		}
	}
}

// hideSurplus hides as many living Machines as there are beyond the size, those first whose node has not started: so an
// update that hangs on a new Machine never costs a node that works, and a node that comes late is not taken for a failed
// scale-up. Next are Machines of an older template, and last the order in which a set shrinks.
func (g *group) hideSurplus() {
	living := int32(len(g.members) - len(g.hidden))
	if rollout.CheckSize(g.owner.replicas) != nil {
		// Nothing is made or deleted for such a size, so all that exist count as wanted.
		g.target = living
	}
	g.gap = max(0, g.target-living)
	surplus := int(living - g.target)
	if surplus <= 0 {
		return
	}
	for _, class := range g.classes() {
		if surplus == 0 {
			return
		}
		if surplus < len(class) {
			class = inDeletionOrder(class, policyOf(g.newest))[:surplus]
		}
		for _, m := range class {
			g.hidden[m.uid()] = hiddenSurplus
		}
		surplus -= len(class)
	}
}

// classes returns the members that count in the coarse order in which they are deleted: those without a node that has
// started first, and in either half those of an older template first.
func (g *group) classes() (classes [4][]*member) {
	for _, m := range g.members {
		if !g.counts(m) {
			continue
		}
		class := 0
		if m.registered() && !m.starting() {
			class = 2
		}
		if m.in(g.newest) {
			class++
		}
		classes[class] = append(classes[class], m)
	}
	return classes
}

// inDeletionOrder sorts members in the order in which they are deleted: first promises as they are taken back, then as a set
// shrinks.
func inDeletionOrder(members []*member, policy v1alpha1.DeletePolicy) []*member {
	facts := make([]rollout.MachineFacts, 0, len(members))
	byUID := make(map[types.UID]*member, len(members))
	for _, m := range members {
		facts = append(facts, m.facts())
		byUID[m.uid()] = m
	}
	sorted := make([]*member, 0, len(members))
	for _, m := range slices.Concat(rollout.Unfulfilled(facts), rollout.DeletionOrder(facts, policy, nil)) {
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
