package nodegroup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// group is one node group with everything that is answered about it. It does not change.
type group struct {
	id    string
	owner *owner
	// refusal says why the object is not a node group; empty when it is one. frozen says why nothing new may be ordered.
	refusal, frozen string
	// invalid: its bounds cannot be read.
	invalid bool
	// min, max and target are as the object says now.
	min, max, target int32

	// members are by name; marks says of each, in the same order, what is asked most often.
	members roster
	marks   []mark
	// hidden says why a Machine counts for nothing, by UID.
	hidden map[types.UID]hiding
	// queue is who goes next when there are too many.
	queue queue
	// gap is how many units of the size have no Machine.
	gap int32
	// rolling: Machines of an older template are being replaced, so that a gap may be held open on purpose. newest is the
	// set of the present template; nil when there is none.
	rolling bool
	newest  *v1alpha1.MachineSet
	// awaited is how many units have no node and no error; coming counts those too whose node takes no pods yet.
	awaited, coming int32

	// instances are those of the members, in the same order. Units without a Machine have none here: [group.shown] makes
	// up theirs, so that a snapshot does not grow with a size that somebody typed.
	instances []Instance
	template  []byte
	options   override
	// recheck is when time alone changes what is shown; zero when it does not.
	recheck time.Time
	// debug is a line for people.
	debug string
}

// assemble decides what is answered about one group. What the version before says of members to which nothing has happened
// is taken over; nil when there is none.
func (s *Snapshot) assemble(o *owner, before *group) (*group, turnover) {
	g := &group{id: o.id, owner: o, hidden: map[types.UID]hiding{}, frozen: o.frozen()}
	bounds, err := v1alpha1.ParseBounds(o.GetAnnotations())
	g.refusal, g.invalid = s.refusalOf(o, bounds, err), err != nil
	g.min, g.max, g.target = bounds.Min, bounds.Max, desired(o, bounds)
	if before != nil && before.owner.Object == o.Object {
		g.template, g.options = before.template, before.options
	} else {
		g.template, g.options = templateNode(o), readOptions(o.GetAnnotations()).limits(s.zeroOrMax, s.join)
	}
	if before == nil {
		before = &group{owner: o}
	}
	sets := s.index.setsIn(o)
	g.newest = newestSet(sets)
	g.members = s.index.rosterOf(sets)
	l := lineUp(before.members, g.members)
	g.rolling = s.replacing(o, sets, g.newest)
	g.hideGoing(s.index, sets, before, l)
	g.hideSurplus(before, l)
	changed := s.list(g, before, l)
	g.debug = g.describe()
	return g, changed
}

// refusalOf says why an object is not a node group; empty when it is one (CA-C17, C18).
func (s *Snapshot) refusalOf(o *owner, bounds v1alpha1.Bounds, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !bounds.Listed:
		return "it has no maximum size"
	case rollout.CheckSize(o.replicas) != nil:
		return rollout.CheckSize(o.replicas).Error()
	case !o.GetDeletionTimestamp().IsZero():
		return "it is being deleted"
	case o.paused():
		return "it is paused by annotation"
	}
	return s.discovery.excludes(o)
}

// desired is the number of living Machines wanted. While a writer has dropped spec.replicas it is what the deployment
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

// replacing tells whether Machines of an older template are being replaced. With OnDelete, or paused, nobody holds back
// anything.
func (s *Snapshot) replacing(o *owner, sets []*v1alpha1.MachineSet, newest *v1alpha1.MachineSet) bool {
	return o.rolls && slices.ContainsFunc(sets, func(set *v1alpha1.MachineSet) bool {
		return set != newest && len(s.index.rosters.get(string(set.UID))) > 0
	})
}

// of tells whether the member belongs to that set.
func (m *member) of(s *v1alpha1.MachineSet) bool { return s != nil && m.set == s.UID }

// held tells whether drover itself holds back the units that have no Machine.
func (g *group) held() bool { return g.rolling || g.frozen != "" }

// lowerable is by how much the size may go down before it is below the minimum.
func (g *group) lowerable() int32 { return max(0, g.target-g.min) }

// series numbers the placeholders of units without a Machine.
func (g *group) series() int32 {
	if g.owner.series != nil {
		return max(0, *g.owner.series)
	}
	return 0
}

// describe is a line for people (CA-C24).
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

// newestSet is the set of the current template: the one with the highest revision.
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

func revisionOf(s *v1alpha1.MachineSet) int64 {
	var n int64
	for _, c := range s.Annotations[v1alpha1.AnnotationRevision] {
		if c < '0' || c > '9' || n > 1<<58 {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func policyOf(s *v1alpha1.MachineSet) v1alpha1.DeletePolicy {
	if s == nil {
		return v1alpha1.DeleteRandom
	}
	return s.Spec.DeletePolicy
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
