package nodegroup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// group is one node group with everything that is answered about it. It is immutable.
type group struct {
	id    string
	owner *owner
	// refusal is why the object is not a node group; empty when it is one. frozen is why the group may not grow.
	refusal, frozen string
	// invalid is set when the bounds cannot be read.
	invalid bool
	// min, max and target are the bounds and the size as the object has them now.
	min, max, target int32
	// options are the group's own options for the autoscaler.
	options override
	// template is the template node, encoded; nil while it is not known.
	template []byte

	// members are the Machines of the group, by name.
	members list
	// newest is the MachineSet of the present template; nil when there is none.
	newest *v1alpha1.MachineSet
	// rolling is set while Machines of an older template are being replaced, so that a gap may be held open on purpose.
	rolling bool
	// hidden is why a Machine does not count, by its UID.
	hidden map[types.UID]hiding
	// gap is how many units of the size have no Machine.
	gap int32

	// instances are those of the members, in their order. Units without a Machine have none here: shown makes theirs, so that
	// the memory of a snapshot does not grow with a size that somebody typed.
	instances []Instance
	// awaited is how many units have neither node nor error; coming counts those too on whose node no pod can run yet.
	awaited, coming int32
	// recheck is when time alone changes what is shown; zero when it does not.
	recheck time.Time
	// debug is a line for people.
	debug string
}

// assemble decides everything that is answered about one group.
func (s *Snapshot) assemble(o *owner) *group {
	g := &group{id: o.id, owner: o, frozen: o.frozen(), template: templateNode(o)}
	bounds, err := v1alpha1.ParseBounds(o.GetAnnotations())
	g.refusal, g.invalid = s.rules.Discovery.refuses(o, bounds, err), err != nil
	g.min, g.max, g.target = bounds.Min, bounds.Max, desired(o, bounds)
	g.options = readOptions(o.GetAnnotations()).limits(s.rules)
	sets := s.index.setsIn(o)
	g.members, g.newest = s.index.membersOf(sets...), newestSet(sets)
	g.rolling = o.rolls && slices.ContainsFunc(g.members, func(m *member) bool { return !m.in(g.newest) })
	g.hideRemoved(s.index, sets)
	g.hideSurplus()
	s.listInstances(g)
	g.debug = g.describe()
	return g
}

// desired returns the number of living Machines wanted. While a writer has dropped spec.replicas it is what the deployment
// controller will put back.
func desired(o *owner, bounds v1alpha1.Bounds) int32 {
	switch {
	case o.replicas != nil:
		return max(0, *o.replicas)
	case o.last != nil:
		return min(max(0, bounds.Clamp(*o.last)), v1alpha1.MaxReplicas)
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

// held reports whether drover itself holds back the units that have no Machine.
func (g *group) held() bool { return g.rolling || g.frozen != "" }

// lowerable returns by how much the size may go down before it is below the minimum.
func (g *group) lowerable() int32 { return max(0, g.target-g.min) }

// counts reports whether a member counts for the size.
func (g *group) counts(m *member) bool { return g.hidden[m.uid()] == "" }

// promises returns the Machines that count and have no node, in the order in which they are taken back.
func (g *group) promises() []*member {
	var facts []rollout.MachineFacts
	byUID := map[types.UID]*member{}
	for _, m := range g.members {
		if g.counts(m) {
			facts = append(facts, m.facts())
			byUID[m.uid()] = m
		}
	}
	var promised []*member
	for _, m := range rollout.Unfulfilled(facts) {
		promised = append(promised, byUID[m.UID])
	}
	return promised
}

// concealed reports whether the autoscaler is told that the member has no node yet although one has registered, until that
// node has started. In a group with options of its own the autoscaler (from release 1.35 on) would take a node that is
// starting for a broken one and order another, because the answer with the options cannot carry a startup time.
func (g *group) concealed(m *member) bool { return g.options.any() && m.registered() && m.starting() }

// describe returns a line for people (CA-C24).
func (g *group) describe() string {
	state := "stable"
	switch {
	case g.frozen != "":
		state = "frozen"
	case g.rolling:
		state = "rolling"
	}
	return fmt.Sprintf("%s (min %d, max %d, target %d, %s)", g.id, g.min, g.max, g.target, state)
}
