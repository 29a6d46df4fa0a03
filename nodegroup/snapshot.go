package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Objects are what a snapshot is made from. They are not changed and must not change.
type Objects struct {
	Deployments []*v1alpha1.MachineDeployment
	Sets        []*v1alpha1.MachineSet
	Machines    []*v1alpha1.Machine
	Nodes       []*corev1.Node

	Now time.Time
	// Seen holds, by UID of a Machine, the time of the failed attempt that the autoscaler has acted upon while the
	// Machine had to stay: that error is not shown again, the next one is.
	Seen map[types.UID]time.Time
}

// Snapshot is everything that is known of the node groups at one moment. It does not change.
type Snapshot struct {
	index     *index
	discovery Discovery
	// startup is the key of the taint that a node loses before it takes pods.
	startup string
	// zeroOrMax and join limit which options of their own groups may have.
	zeroOrMax bool
	join      time.Duration
	groups    map[string]*group
	// shown are the ids of all instances, each with the id of its group.
	shown table[string]
	now   time.Time
	seen  map[types.UID]time.Time
	// flaw is the first invariant that does not hold; a snapshot with one is not published.
	flaw error
}

// empty is a snapshot of nothing.
func empty(d Discovery) *Snapshot {
	return &Snapshot{index: &index{bare: d.BareSets}, discovery: d, groups: map[string]*group{}}
}

// configured returns the snapshot with what the options say of nodes and of groups.
func (s *Snapshot) configured(o Options) *Snapshot {
	s.startup, s.zeroOrMax, s.join = o.StartupTaint, o.ZeroOrMax, o.JoinTimeout
	return s
}

// Build makes a snapshot. It decides everything that a read is answered with, and does no I/O.
func Build(o Objects, d Discovery) *Snapshot {
	s := empty(d)
	s.now, s.seen = o.Now, o.Seen
	return s.apply(o.events(), o.Now)
}

func (o Objects) events() []event {
	list := make([]event, 0, len(o.Deployments)+len(o.Sets)+len(o.Machines)+len(o.Nodes))
	for _, d := range o.Deployments {
		list = append(list, event{object: d})
	}
	for _, s := range o.Sets {
		list = append(list, event{object: s})
	}
	for _, m := range o.Machines {
		list = append(list, event{object: m})
	}
	for _, n := range o.Nodes {
		list = append(list, event{object: n})
	}
	return list
}

// apply gives the snapshot after the events, at a time that may be later. Only the groups that they are about, and those
// for which the time has come, are decided anew.
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
	next.flaw = nil
	next.groups = maps.Clone(s.groups)
	shown := s.shown.draft()
	if s.flaw != nil {
		shown = table[string]{}.draft()
	}
	come := map[string][]string{}
	for id := range dirty {
		changed := next.redo(id, s)
		for _, i := range changed.gone {
			if shown.get(i) == id {
				shown.drop(i)
			}
		}
		come[id] = changed.come
	}
	for _, id := range slices.Sorted(maps.Keys(dirty)) {
		if err := next.reveal(shown, id, come[id]); err != nil && next.flaw == nil {
			next.flaw = err
		}
	}
	next.shown = shown.done()
	return &next
}

// redo decides one group anew, and gives the ids of instances that this changes. After a snapshot that did not add up
// nothing is taken over.
func (s *Snapshot) redo(id string, before *Snapshot) turnover {
	old := before.groups[id]
	if before.flaw != nil {
		old = nil
	}
	delete(s.groups, id)
	if o := s.index.ownerOf(id); o != nil {
		g, changed := s.assemble(o, old)
		s.groups[id] = g
		return changed
	}
	var changed turnover
	if old != nil {
		for _, i := range old.instances {
			changed.moved(i.ID, "")
		}
	}
	return changed
}

// reveal puts instances of a group on the list of all, and tells the first invariant that does not hold.
func (s *Snapshot) reveal(shown *draft[string], id string, come []string) error {
	g := s.groups[id]
	if g == nil {
		return nil
	}
	for _, i := range come {
		switch other := shown.get(i); other {
		case "":
			shown.set(i, id)
		case id:
			return fmt.Errorf("instance %s is twice in group %s (CA-C40)", i, id)
		default:
			return fmt.Errorf("instance %s is in group %s and in %s (CA-C40)", i, other, id)
		}
	}
	return g.check()
}

// Check tells the first invariant that does not hold. A snapshot that breaks one is not published.
func (s *Snapshot) Check() error {
	if s.flaw != nil {
		return s.flaw
	}
	shown := table[string]{}.draft()
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		var all []string
		for _, i := range s.groups[id].instances {
			all = append(all, i.ID)
		}
		if err := s.reveal(shown, id, all); err != nil {
			return err
		}
	}
	return nil
}

// check tells the first invariant of one group that does not hold.
func (g *group) check() error {
	var units int32
	for n := range g.instances {
		i := &g.instances[n]
		if i.Error != nil && i.State != Creating {
			return fmt.Errorf("instance %s of %s is %s and has an error (CA-C50)", i.ID, g.id, i.State)
		}
		if i.State != Deleting {
			units++
		}
	}
	if units += g.gap; units != g.target {
		return fmt.Errorf("group %s has %d units and target size %d (CA-C38)", g.id, units, g.target)
	}
	return nil
}

// owner returns the group that a node of a request belongs to, nil for none: a foreign node, one whose Machine goes
// (CA-C31, C32), and one that is shown as not registered yet.
func (s *Snapshot) owner(n Node) *group {
	if p, ok := n.placeholder(); ok {
		return s.groups[p.group]
	}
	m := s.index.find(n)
	if m == nil {
		return nil
	}
	g := s.groups[s.index.groupOf(m)]
	if g == nil || g.hidden[m.machine.UID] != "" || g.concealed(m) {
		return nil
	}
	return g
}

// named gives the member that a node of a request means, whether hidden or not; nil when there is none (any more).
func (s *Snapshot) named(n Node) *member {
	p, ok := n.placeholder()
	if !ok {
		m := s.index.find(n)
		if m == nil || s.index.groupOf(m) == "" {
			return nil
		}
		return m
	}
	if p.machine == "" {
		return nil
	}
	m := s.index.pick(s.index.machineClaims.keys.get(p.namespace()+"/"+p.machine), nodeFacts{})
	if m == nil || s.index.groupOf(m) != p.group {
		return nil
	}
	return m
}
