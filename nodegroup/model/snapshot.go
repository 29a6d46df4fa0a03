package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Rules are the settings that all groups share.
type Rules struct {
	// Discovery selects the objects that may be node groups.
	Discovery Discovery
	// StartupTaint is the key of the taint that drover removes from a node before the node takes pods; empty when there is no
	// such taint.
	StartupTaint string
	// ZeroOrMax permits groups to set the autoscaler's option zeroormaxnodescaling, which drover otherwise ignores.
	ZeroOrMax bool
	// JoinTimeout is how long a server may take to become a node.
	JoinTimeout time.Duration
}

// Snapshot is the state of all node groups at one moment. It is immutable.
type Snapshot struct {
	Index  *membership.Index
	rules  Rules
	Groups map[string]*Group
	// shown maps the ids of all instances to the id of their group.
	shown membership.Table[string]
	// edit made this version, and may not change it any more.
	edit *membership.Edit
	now  time.Time
	// seen holds, by the Machine's UID, the time of a failure after which the autoscaler asked to remove the Machine, although
	// the Machine stayed because of the minimum size. The error of that failure is not shown to the autoscaler again; the error
	// of a later failure is shown.
	seen map[types.UID]time.Time
	// flaw is the first broken invariant; a snapshot with a flaw is not published.
	flaw error
}

// Empty returns a snapshot without objects.
func Empty(r Rules) *Snapshot {
	return &Snapshot{Index: membership.NewIndex(r.Discovery.Cloud, r.Discovery.BareSets), rules: r, Groups: map[string]*Group{}}
}

// Apply returns the snapshot after the events, at the time now. It assembles again the groups that the events change, and those
// whose recheck time has come.
func (s *Snapshot) Apply(events []membership.Event, now time.Time) *Snapshot {
	next := *s
	next.now = now
	var dirty map[string]bool
	next.Index, dirty = s.Index.Apply(events)
	next.seen = maps.Clone(s.seen)
	maps.DeleteFunc(next.seen, func(uid types.UID, _ time.Time) bool { return next.Index.Member(uid) == nil })
	for id, g := range s.Groups {
		if !g.recheck.IsZero() && !now.Before(g.recheck) || s.flaw != nil {
			dirty[id] = true
		}
	}
	if len(dirty) == 0 {
		return &next
	}
	before := s.Groups
	next.Groups, next.edit = maps.Clone(before), new(membership.Edit)
	if s.flaw != nil {
		// A snapshot with a broken invariant is rebuilt completely.
		before, next.shown = nil, membership.Table[string]{}
	}
	for id := range dirty {
		delete(next.Groups, id)
		if o := next.Index.Owner(id); o != nil {
			next.Groups[id] = next.assemble(o)
		}
	}
	next.flaw = next.show(before, slices.Sorted(maps.Keys(dirty)))
	return &next
}

// show replaces the instances of the groups with these ids in the map shown, and returns the first broken invariant.
func (s *Snapshot) show(before map[string]*Group, ids []string) (flaw error) {
	for _, id := range ids {
		for _, i := range before[id].without(s.Groups[id]) {
			s.shown.Drop(s.edit, i)
		}
	}
	for _, id := range ids {
		for _, i := range s.Groups[id].without(before[id]) {
			if other := s.shown.Get(i); other != "" {
				flaw = cmp.Or(flaw, fmt.Errorf("instance %s is in group %s and in %s (CA-C40)", i, id, other))
			}
			s.shown.Set(s.edit, i, id)
		}
		flaw = cmp.Or(flaw, s.Groups[id].check())
	}
	return flaw
}

// list returns the group's instances; nil for a nil group.
func (g *Group) list() []Instance {
	if g == nil {
		return nil
	}
	return g.instances
}

// without returns the ids of the group's instances without those that another version of the group also has. Both versions may be
// nil. The instances have the order of the Machines, so without compares the lists in one pass.
func (g *Group) without(other *Group) (ids []string) {
	theirs, at := other.list(), 0
	for n, i := range g.list() {
		for at < len(theirs) && membership.Compare(other.Members[at], g.Members[n]) < 0 {
			at++
		}
		if at == len(theirs) || theirs[at].ID != i.ID || membership.Compare(other.Members[at], g.Members[n]) != 0 {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// check returns the first broken invariant of one group.
func (g *Group) check() error {
	var units int32
	for n := range g.list() {
		i := &g.instances[n]
		if i.Error != nil && i.State != Creating {
			return fmt.Errorf("instance %s of %s is %s and has an error (CA-C50)", i.ID, g.ID, i.State)
		}
		if i.State != Deleting {
			units++
		}
	}
	if g == nil {
		return nil
	}
	if units += g.Gap; units != g.Target {
		return fmt.Errorf("group %s has %d units and target size %d (CA-C38)", g.ID, units, g.Target)
	}
	return nil
}

// groupOf returns the group that the node of a request belongs to. It returns nil for a node that belongs to no Machine, for a
// node whose Machine is being removed (CA-C31, C32), and for a node that is shown as not registered yet.
func (s *Snapshot) groupOf(n membership.Node) *Group {
	g, m := s.find(n)
	if g == nil || m != nil && (!g.Counts(m) || g.Concealed(m)) {
		return nil
	}
	return g
}

// find returns the group of the node of a request, and the Machine of a node that is not a placeholder; nil when there is none.
func (s *Snapshot) find(n membership.Node) (*Group, *membership.Member) {
	if p, ok := n.Placeholder(); ok {
		return s.Groups[p.Group], nil
	}
	m := s.Index.Find(n)
	if m == nil {
		return nil, nil
	}
	return s.Groups[s.Index.GroupOf(m)], m
}

// Named returns the member that the node of a request refers to, whether hidden or not; nil when there is none.
func (s *Snapshot) Named(n membership.Node) *membership.Member {
	if p, ok := n.Placeholder(); ok {
		return s.Index.Named(p)
	}
	m := s.Index.Find(n)
	if m == nil || s.Index.GroupOf(m) == "" {
		return nil
	}
	return m
}

// Flaw returns the first broken invariant; nil when all invariants hold.
func (s *Snapshot) Flaw() error { return s.flaw }

// WithSeen returns a snapshot that records that the autoscaler has seen the errors of the members of g, and has asked to remove them. The
// record of a Machine ends with the Machine.
func (s *Snapshot) WithSeen(g *Group, members []*membership.Member) *Snapshot {
	next := *s
	next.seen = map[types.UID]time.Time{}
	maps.Copy(next.seen, s.seen)
	for _, m := range members {
		next.seen[m.UID()] = g.lastFailure(m)
	}
	return &next
}

// ResourcesOf returns the resources that a node has according to its group's template; nil when they are not known.
func (s *Snapshot) ResourcesOf(n membership.Node) corev1.ResourceList {
	g, _ := s.find(n)
	if g == nil || g.Owner.Template == nil {
		return nil
	}
	return g.Owner.Template.Capacity
}
