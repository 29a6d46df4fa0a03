package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Group is one node group with everything that is answered about it. It is immutable.
type Group struct {
	ID    string
	Owner *membership.Owner
	// Refusal is why the object is not a node group; empty when it is one. Frozen is why the group may not grow.
	Refusal, Frozen string
	// Invalid is set when the bounds cannot be read.
	Invalid bool
	// Min, Max and Target are the bounds and the size as the object has them now.
	Min, Max, Target int32
	// Options are the group's own options for the autoscaler.
	Options Override
	// Template is the template node, encoded; nil while it is not known.
	Template []byte

	// Members are the Machines of the group, by name.
	Members membership.Members
	// Newest is the MachineSet of the present template; nil when there is none.
	Newest *v1alpha1.MachineSet
	// Rolling is set while Machines of an older template are being replaced, so that a gap may be held open on purpose.
	Rolling bool
	// Hidden is why a Machine does not count, by its UID.
	Hidden map[types.UID]Hiding
	// Gap is how many units of the size have no Machine.
	Gap int32

	// instances are those of the members, in their order. Units without a Machine have none here: Shown makes theirs, so that
	// the memory of a snapshot does not grow with a size that somebody typed.
	instances []Instance
	// Awaited is how many units have neither node nor error; Coming counts those too on whose node no pod can run yet.
	Awaited, Coming int32
	// recheck is when time alone changes what is shown; zero when it does not.
	recheck time.Time
	// debug is a line for people.
	debug string
}

// assemble decides everything that is answered about one group.
func (s *Snapshot) assemble(o *membership.Owner) *Group {
	g := &Group{ID: o.ID, Owner: o, Frozen: o.Frozen(), Template: templateNode(o)}
	bounds, err := v1alpha1.ParseBounds(o.GetAnnotations())
	g.Refusal, g.Invalid = s.rules.Discovery.refuses(o, bounds, err), err != nil
	g.Min, g.Max, g.Target = bounds.Min, bounds.Max, desired(o, bounds)
	g.Options = readOptions(o.GetAnnotations()).limits(s.rules)
	sets := s.Index.SetsIn(o)
	g.Members, g.Newest = s.Index.MembersOf(sets...), newestSet(sets)
	g.Rolling = o.Rolls && slices.ContainsFunc(g.Members, func(m *membership.Member) bool { return !m.In(g.Newest) })
	g.hideRemoved(s.Index, sets)
	g.hideSurplus()
	s.listInstances(g)
	g.debug = g.describe()
	return g
}

// desired returns the number of living Machines wanted. While a writer has dropped spec.replicas it is what the deployment
// controller will put back.
func desired(o *membership.Owner, bounds v1alpha1.Bounds) int32 {
	switch {
	case o.Replicas != nil:
		return max(0, *o.Replicas)
	case o.Last != nil:
		return min(max(0, bounds.Clamp(*o.Last)), v1alpha1.MaxReplicas)
	case bounds.Listed:
		return bounds.Min
	}
	return 1
}

// newestSet returns the set of the present template: the one with the highest revision; nil for none.
func newestSet(sets []*v1alpha1.MachineSet) *v1alpha1.MachineSet {
	if len(sets) == 0 {
		return nil
	}
	return slices.MaxFunc(sets, func(a, b *v1alpha1.MachineSet) int {
		return cmp.Or(
			cmp.Compare(revisionOf(a), revisionOf(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// revisionOf returns the deployment revision of a set; 0 when its annotation is not a number.
func revisionOf(s *v1alpha1.MachineSet) int64 {
	n, err := strconv.ParseUint(s.Annotations[v1alpha1.AnnotationRevision], 10, 62)
	if err != nil {
		return 0
	}
	return int64(n)
}

// Held reports whether drover itself holds back the units that have no Machine.
func (g *Group) Held() bool { return g.Rolling || g.Frozen != "" }

// Lowerable returns by how much the size may go down before it is below the minimum.
func (g *Group) Lowerable() int32 { return max(0, g.Target-g.Min) }

// Counts reports whether a member counts for the size.
func (g *Group) Counts(m *membership.Member) bool { return g.Hidden[m.UID()] == "" }

// Promises returns the Machines that count and have no node, in the order in which they are taken back.
func (g *Group) Promises() []*membership.Member {
	var facts []rollout.MachineFacts
	byUID := map[types.UID]*membership.Member{}
	for _, m := range g.Members {
		if g.Counts(m) {
			facts = append(facts, m.Facts())
			byUID[m.UID()] = m
		}
	}
	var promised []*membership.Member
	for _, m := range rollout.Unfulfilled(facts) {
		promised = append(promised, byUID[m.UID])
	}
	return promised
}

// Concealed reports whether the autoscaler is told that the member has no node yet although one has registered, until that
// node has started. In a group with options of its own the autoscaler (from release 1.35 on) would take a node that is
// starting for a broken one and order another, because the answer with the options cannot carry a startup time.
func (g *Group) Concealed(m *membership.Member) bool {
	return g.Options.Any() && m.Registered() && m.Starting()
}

// describe returns a line for people (CA-C24).
func (g *Group) describe() string {
	state := "stable"
	switch {
	case g.Frozen != "":
		state = "frozen"
	case g.Rolling:
		state = "rolling"
	}
	return fmt.Sprintf("%s (min %d, max %d, target %d, %s)", g.ID, g.Min, g.Max, g.Target, state)
}
