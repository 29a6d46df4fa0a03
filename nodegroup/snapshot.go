package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rules are what decides about groups beside their objects.
type Rules struct {
	// Discovery says which objects may be node groups.
	Discovery Discovery
	// StartupTaint is the key of the taint that a node loses before it takes pods; empty for none.
	StartupTaint string
	// ZeroOrMax allows the option zeroormaxnodescaling.
	ZeroOrMax bool
	// JoinTimeout is how long a server may take to become a node.
	JoinTimeout time.Duration
}

// Snapshot is everything that is known of the node groups at one moment. It is immutable.
type Snapshot struct {
	index  *index
	rules  Rules
	groups map[string]*group
	// shown are the ids of all instances, each with the id of its group.
	shown table[string]
	now   time.Time
	// seen is, by UID of a Machine that had to stay, the time of the failed attempt that the autoscaler has acted upon: that
	// error is not shown again, the next one is.
	seen map[types.UID]time.Time
	// flaw is the first broken invariant; a snapshot with one is not published.
	flaw error
}

// empty returns a snapshot of nothing.
func empty(r Rules) *Snapshot {
	return &Snapshot{index: newIndex(r.Discovery.BareSets), rules: r, groups: map[string]*group{}}
}

// apply returns the snapshot after the events, at a time that may be later. The groups that the events change, and those for
// which the time has come, are decided again as a whole.
func (s *Snapshot) apply(events []event, now time.Time) *Snapshot {
	next := *s
	next.now = now
	var dirty map[string]bool
	next.index, dirty = s.index.apply(events)
	for id, g := range s.groups {
		if !g.recheck.IsZero() && !now.Before(g.recheck) || s.flaw != nil {
			dirty[id] = true
		}
	}
	if len(dirty) == 0 {
		return &next
	}
	next.groups, next.flaw = maps.Clone(s.groups), nil
	if s.flaw != nil {
		// Nothing is taken over from a snapshot that broke an invariant.
		next.shown = table[string]{}
	}
	for id := range dirty {
		delete(next.groups, id)
		if o := next.index.owner(id); o != nil {
			next.groups[id] = next.assemble(o)
		}
	}
	next.flaw = next.show(s.groups, slices.Sorted(maps.Keys(dirty)))
	next.shown.seal()
	return &next
}

// show puts the instances of some groups in the place of those that they had before, and returns the first invariant that
// does not hold.
func (s *Snapshot) show(before map[string]*group, ids []string) (flaw error) {
	note := func(err error) {
		if flaw == nil {
			flaw = err
		}
	}
	now := make(map[string]map[string]bool, len(ids))
	for _, id := range ids {
		shown, err := s.groups[id].ids()
		note(err)
		now[id] = shown
		for _, i := range before[id].list() {
			if !shown[i.ID] && s.shown.get(i.ID) == id {
				s.shown.drop(i.ID)
			}
		}
	}
	for _, id := range ids {
		for i := range now[id] {
			switch other := s.shown.get(i); other {
			case id:
			case "":
				s.shown.set(i, id)
			default:
				note(fmt.Errorf("instance %s is in group %s and in %s (CA-C40)", i, id, other))
			}
		}
		note(s.groups[id].check())
	}
	return flaw
}

// list returns the group's instances; none for no group.
func (g *group) list() []Instance {
	if g == nil {
		return nil
	}
	return g.instances
}

// ids returns the ids of the group's instances. Its error is that two have the same one.
func (g *group) ids() (map[string]bool, error) {
	var err error
	list := g.list()
	shown := make(map[string]bool, len(list))
	for n := range list {
		if id := list[n].ID; shown[id] {
			err = fmt.Errorf("instance %s is twice in group %s (CA-C40)", id, g.id)
		} else {
			shown[id] = true
		}
	}
	return shown, err
}

// check returns the first invariant of one group that does not hold.
func (g *group) check() error {
	var units int32
	for n := range g.list() {
		i := &g.instances[n]
		if i.Error != nil && i.State != Creating {
			return fmt.Errorf("instance %s of %s is %s and has an error (CA-C50)", i.ID, g.id, i.State)
		}
		if i.State != Deleting {
			units++
		}
	}
	if g == nil {
		return nil
	}
	if units += g.gap; units != g.target {
		return fmt.Errorf("group %s has %d units and target size %d (CA-C38)", g.id, units, g.target)
	}
	return nil
}

// groupOf returns the group that a node of a request belongs to; nil for a foreign node, one whose Machine is being removed
// (CA-C31, C32), and one that is shown as not registered yet.
func (s *Snapshot) groupOf(n Node) *group {
	if p, ok := n.placeholder(); ok {
		return s.groups[p.group]
	}
	m := s.index.find(n)
	if m == nil {
		return nil
	}
	g := s.groups[s.index.groupOf(m)]
	if g == nil || !g.counts(m) || g.concealed(m) {
		return nil
	}
	return g
}

// named returns the member that a node of a request means, hidden or not; nil when there is none (any more).
func (s *Snapshot) named(n Node) *member {
	if p, ok := n.placeholder(); ok {
		return s.index.named(p)
	}
	m := s.index.find(n)
	if m == nil || s.index.groupOf(m) == "" {
		return nil
	}
	return m
}

// broken returns the first broken invariant; nil when all hold.
func (s *Snapshot) broken() error { return s.flaw }

// withSeen returns the snapshot in which the autoscaler has acted upon the present error of those members of a group.
func (s *Snapshot) withSeen(g *group, members []*member) *Snapshot {
	if len(members) == 0 {
		return s
	}
	next := *s
	next.seen = maps.Clone(s.seen)
	if next.seen == nil {
		next.seen = map[types.UID]time.Time{}
	}
	for _, m := range members {
		next.seen[m.uid()] = g.lastFailure(m)
	}
	return &next
}

// forget returns the snapshot without what withSeen has noted of a Machine.
func (s *Snapshot) forget(machine types.UID) *Snapshot {
	if _, ok := s.seen[machine]; !ok {
		return s
	}
	next := *s
	next.seen = maps.Clone(s.seen)
	delete(next.seen, machine)
	return &next
}

// resourcesOf returns what a node has, by the template of its group; nil when that is not known.
func (s *Snapshot) resourcesOf(n Node) corev1.ResourceList {
	var g *group
	if p, ok := n.placeholder(); ok {
		g = s.groups[p.group]
	} else if m := s.index.find(n); m != nil {
		g = s.groups[s.index.groupOf(m)]
	}
	if g == nil || g.owner.template == nil {
		return nil
	}
	return g.owner.template.Capacity
}
