package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	index  *index
	groups map[string]*group
	now    time.Time
	seen   map[types.UID]time.Time
}

// Build makes a snapshot. It decides everything that a read is answered with, and does no I/O.
func Build(o Objects) *Snapshot {
	s := &Snapshot{
		index:  newIndex(o),
		groups: make(map[string]*group, len(o.Deployments)),
		now:    o.Now,
		seen:   o.Seen,
	}
	for _, d := range o.Deployments {
		g := s.assemble(d)
		s.groups[g.id] = g
	}
	return s
}

// with gives the snapshot that has a newer version of one deployment: our own write, or a live read.
func (s *Snapshot) with(d *v1alpha1.MachineDeployment) *Snapshot {
	next := *s
	next.groups = maps.Clone(s.groups)
	g := next.assemble(d)
	next.groups[g.id] = g
	return &next
}

// Check tells the first invariant that does not hold. A snapshot that breaks one is not published.
func (s *Snapshot) Check() error {
	seen := make(map[string]string, len(s.index.byUID))
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		if err := s.groups[id].check(); err != nil {
			return err
		}
		for _, i := range s.groups[id].instances {
			if other, ok := seen[i.ID]; ok {
				return fmt.Errorf("instance %s is in group %s and in %s (CA-C40)", i.ID, other, id)
			}
			seen[i.ID] = id
		}
	}
	return nil
}

// check tells the first invariant of one group that does not hold.
func (g *group) check() error {
	var units int32
	for _, i := range g.instances {
		if i.Error != nil && i.State != Creating {
			return fmt.Errorf("instance %s of %s is %s and has an error (CA-C50)", i.ID, g.id, i.State)
		}
		if i.State != Deleting {
			units++
		}
	}
	if units != g.target {
		return fmt.Errorf("group %s has %d units and target size %d (CA-C38)", g.id, units, g.target)
	}
	return nil
}

// owner gives the group that a node of a request belongs to, nil for none: a foreign node, and one whose Machine goes
// (CA-C31, C32).
func (s *Snapshot) owner(n Node) *group {
	if p, ok := n.placeholder(); ok {
		return s.groups[p.group]
	}
	m := s.index.find(n)
	if m == nil {
		return nil
	}
	g := s.groups[m.group]
	if g == nil || g.hidden[m.machine.UID] != "" {
		return nil
	}
	return g
}

// named gives the member that a node of a request means, whether hidden or not; nil when there is none (any more).
func (s *Snapshot) named(n Node) *member {
	p, ok := n.placeholder()
	if !ok {
		return s.index.find(n)
	}
	if p.machine == "" {
		return nil
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(p.group, idKind+"/"), "/")
	m := s.index.byKey[namespace+"/"+p.machine]
	if m == nil || m.group != p.group {
		return nil
	}
	return m
}
