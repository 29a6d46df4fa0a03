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

// Group is one node group with all answers about it. It is immutable.
type Group struct {
	ID    string
	Owner *membership.Owner
	// Refusal is the reason why the object is not a node group; empty when it is one. Frozen is the reason why the group may
	// not grow; empty when it may grow.
	Refusal, Frozen string
	// Invalid is true when the bounds cannot be read.
	Invalid bool
	// Min, Max and Target are the bounds and the size that the object has now.
	Min, Max, Target int32
	// Most is the maximum that the autoscaler receives. It may be below Max while new servers of the group do not become nodes.
	Most int32
	// Options are the group's own options for the autoscaler.
	Options Override
	// Template is the template node, encoded; nil while it is not known.
	Template []byte

	// Members are the Machines of the group, sorted by name.
	Members []*membership.Member
	// Newest is the MachineSet of the current template; nil when there is none.
	Newest *v1alpha1.MachineSet
	// Rolling is true while Machines of an older template are being replaced. The rollout may then leave replicas without a
	// Machine on purpose.
	Rolling bool
	// Hidden holds, by UID of a Machine, the reason why the Machine does not count in the size.
	Hidden map[types.UID]Hiding
	// Gap is the number of replicas that have no Machine.
	Gap int32

	// instances are the instances of Members, in the same order. Replicas without a Machine are not among them: Shown adds
	// placeholders for these replicas, so that a snapshot does not need more memory for a larger spec.replicas.
	instances []Instance
	// refused is the error of the first refusals placeholders of replicas without a Machine; nil when they have none.
	refused  *InstanceError
	refusals int32
	// Awaited is the number of replicas that have neither a node nor an error. Coming is Awaited plus the number of replicas whose
	// node cannot run pods yet.
	Awaited, Coming int32
	// recheck is when the answers about the group next change without an event; zero when they do not.
	recheck time.Time
	// debug describes the group in one line for users.
	debug string
}

// assemble computes all answers about one group.
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
	s.limitGrowth(g)
	g.debug = g.describe()
	return g
}

// desired returns how many living Machines the group should have. When a client has dropped spec.replicas, that is the size that
// the deployment controller will restore.
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

// newestSet returns the set of the current template, which has the highest revision; nil when there is no set.
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

// Held reports whether a rollout or a freeze delays the creation of missing Machines.
func (g *Group) Held() bool { return g.Rolling || g.Frozen != "" }

// Lowerable returns by how much the size may be lowered before it reaches the minimum.
func (g *Group) Lowerable() int32 { return max(0, g.Target-g.Min) }

// Counts reports whether a member counts towards the size.
func (g *Group) Counts(m *membership.Member) bool { return g.Hidden[m.UID()] == "" }

// Promises returns the Machines without a node that count in the size, in the order in which DecreaseTargetSize removes them.
func (g *Group) Promises() []*membership.Member {
	counted := slices.DeleteFunc(slices.Clone(g.Members), func(m *membership.Member) bool { return !g.Counts(m) })
	return ordered(counted, rollout.Unfulfilled)
}

// Concealed reports whether the member's node is hidden from the autoscaler because it has registered but not started yet. This
// is the case in a group with options of its own: its options have no field for the startup time, so an autoscaler from release
// 1.35 on would treat a starting node as broken and order another one.
func (g *Group) Concealed(m *membership.Member) bool {
	return g.Options.Any() && m.Registered() && m.Starting()
}

// describe returns a line that describes the group for users (CA-C24).
func (g *Group) describe() string {
	state := "stable"
	switch {
	case g.Frozen != "":
		state = "frozen"
	case g.Most < g.Max:
		state = fmt.Sprintf("new servers do not join, so the maximum is %d for now", g.Most)
	case g.Rolling:
		state = "rolling"
	}
	return fmt.Sprintf("%s (min %d, max %d, target %d, %s)", g.ID, g.Min, g.Max, g.Target, state)
}
