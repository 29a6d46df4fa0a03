package nodegroup

import (
	"cmp"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// mark says what is asked most often about a member of a group.
type mark uint8

const (
	// markGoing: its Machine is being deleted.
	markGoing mark = 1 << iota
	// markHidden: it counts for nothing.
	markHidden
	// markAwaited: it has neither node nor error. markComing: or its node takes no pods yet.
	markAwaited
	markComing
	// markPlain: its instance follows from the Machine and its Node alone, and from whether it is hidden; neither from the
	// group's object nor from the time.
	markPlain
)

// hiding is why a Machine is hidden from the autoscaler.
type hiding string

const (
	// hiddenListed: it is named in spec.removals.
	hiddenListed hiding = "listed for removal"
	// hiddenDeleting: it is being deleted, or a rollout has named it and its set deletes it next.
	hiddenDeleting hiding = "being deleted"
	// hiddenSurplus: there are more Machines than the size says, and it is one of those that go.
	hiddenSurplus hiding = "surplus"
)

// hide hides the member at a place.
func (g *group) hide(at int, why hiding) {
	g.marks[at] |= markHidden
	g.hidden[g.members[at].machine.UID] = why
}

// hideGoing hides what is being deleted, what a rollout removes, and what is listed for removal, by UID, in the group's
// object or in a set of it.
func (g *group) hideGoing(ix *index, sets []*v1alpha1.MachineSet, before *group, l lineup) {
	g.marks = make([]mark, len(g.members))
	for i, m := range g.members {
		switch {
		case l.same(i, m):
			g.marks[i] = before.marks[l.was[i]] & markGoing
		case !m.machine.DeletionTimestamp.IsZero():
			g.marks[i] = markGoing
		}
		if g.marks[i] != 0 {
			g.hide(i, hiddenDeleting)
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
		if m := ix.members.get(string(r.UID)); m != nil {
			g.hideMember(m, why)
		}
	}
}

// hideMember hides a Machine, when it is a member.
func (g *group) hideMember(m *member, why hiding) {
	if at, found := slices.BinarySearchFunc(g.members, m, compareMembers); found {
		g.hide(at, why)
	}
}

// hideSurplus hides as many living Machines as there are beyond the size, those first whose node has not started: so an
// update that hangs on a new Machine never costs a node that works, and nothing that comes late is taken for a failed
// scale-up. Then come Machines of an older template, then the order in which a set shrinks.
func (g *group) hideSurplus(before *group, l lineup) {
	newest := g.newest
	living := len(g.members) - len(g.hidden)
	if rollout.CheckSize(g.owner.replicas) != nil {
		// Nothing is made or deleted for such a size, so what there is counts as what is wanted.
		g.target = int32(living)
	}
	g.gap = max(0, g.target-int32(living))
	surplus := living - int(g.target)
	if surplus <= 0 {
		return
	}
	for class, size := range g.classes(newest) {
		if surplus == 0 {
			return
		}
		list := g.ofClass(class, size, newest)
		if surplus < len(list) {
			g.queue = queue{class: class, newest: newest, members: g.queued(list, queue{class: class, newest: newest}, before, l)}
			list = g.queue.members
		}
		for _, m := range list[:min(surplus, len(list))] {
			g.hideMember(m, hiddenSurplus)
			surplus--
		}
	}
}

// classes counts the living members of each class.
func (g *group) classes(newest *v1alpha1.MachineSet) (sizes [4]int) {
	for i, m := range g.members {
		if g.marks[i]&markHidden == 0 {
			sizes[m.class(newest)]++
		}
	}
	return sizes
}

// ofClass are the living members of a class, by name.
func (g *group) ofClass(class, size int, newest *v1alpha1.MachineSet) roster {
	if size == 0 {
		return nil
	}
	list := make(roster, 0, size)
	for i, m := range g.members {
		if g.marks[i]&markHidden == 0 && m.class(newest) == class {
			list = append(list, m)
		}
	}
	return list
}

// class is a coarse order in which Machines go: those without a node that has started first, then those of an older
// template.
func (m *member) class(newest *v1alpha1.MachineSet) int {
	class := 0
	if m.registered() && !m.starting() {
		class = 2
	}
	if m.of(newest) {
		class++
	}
	return class
}

// queue are the living members of one class in the order in which they go. It is kept, because putting thousands in order
// takes long and little of it changes.
type queue struct {
	class   int
	newest  *v1alpha1.MachineSet
	members roster
}

// queued puts the members of a class in order, by means of the queue of the version before where that was of the same class
// and set.
func (g *group) queued(class roster, q queue, before *group, l lineup) roster {
	policy := policyOf(q.newest)
	old := before.queue
	if old.class != q.class || old.newest != q.newest || len(l.fresh)+len(l.gone) > 4+len(class)/16 {
		return inOrder(class, policy)
	}
	changed := make(map[*member]bool, len(l.fresh)+len(l.gone))
	for _, at := range l.gone {
		changed[before.members[at]] = true
	}
	for _, at := range l.fresh {
		if l.was[at] != nobody {
			changed[before.members[l.was[at]]] = true
		}
	}
	list := make(roster, 0, len(class))
	for _, m := range old.members {
		if !changed[m] && (len(g.hidden) == 0 || g.hidden[m.machine.UID] == "") {
			list = append(list, m)
		}
	}
	for _, at := range l.fresh {
		m := g.members[at]
		if g.marks[at]&markHidden != 0 || m.class(q.newest) != q.class {
			continue
		}
		place := sort.Search(len(list), func(n int) bool { return inOrder(roster{list[n], m}, policy)[0] == m })
		list = slices.Insert(list, place, m)
	}
	if len(list) != len(class) {
		// One is there again that had been hidden.
		return inOrder(class, policy)
	}
	return list
}

// inOrder puts members into the order in which they go: promises as they are taken back, and then as a set shrinks.
func inOrder(members roster, policy v1alpha1.DeletePolicy) roster {
	facts := make([]rollout.MachineFacts, 0, len(members))
	rank := make(map[types.UID]int, len(members))
	for _, m := range members {
		facts = append(facts, m.facts())
	}
	for i, m := range rollout.Unfulfilled(facts) {
		rank[m.UID] = i - len(members)
	}
	for i, m := range rollout.DeletionOrder(facts, policy, nil) {
		if _, promised := rank[m.UID]; !promised {
			rank[m.UID] = i
		}
	}
	list := slices.Clone(members)
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(rank[a.machine.UID], rank[b.machine.UID]) })
	return list
}
