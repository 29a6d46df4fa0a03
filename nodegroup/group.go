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
	// min, max and target are as the object says now.
	min, max, target int32

	members []*member
	// hidden says why a Machine counts for nothing, by UID.
	hidden map[types.UID]hiding
	// gap is how many units of the size have no Machine.
	gap int32
	// rolling: Machines of an older template are being replaced, so that a gap may be held open on purpose.
	rolling bool
	// awaited is how many units have no node and no error; coming counts those too whose node takes no pods yet.
	awaited, coming int32

	instances []Instance
	template  []byte
	options   override
	// recheck is when time alone changes what is shown; zero when it does not.
	recheck time.Time
	// debug is a line for people.
	debug string
}

// hiding is why a Machine is hidden from the autoscaler.
type hiding string

const (
	// hiddenListed: it is named in spec.removals.
	hiddenListed hiding = "listed for removal"
	// hiddenDeleting: it is being deleted.
	hiddenDeleting hiding = "being deleted"
	// hiddenSurplus: there are more Machines than the size says, and it is one of those that go.
	hiddenSurplus hiding = "surplus"
)

// assemble decides what is answered about one group.
func (s *Snapshot) assemble(o *owner) *group {
	g := &group{id: o.id, owner: o, hidden: map[types.UID]hiding{}, frozen: o.frozen()}
	bounds, err := v1alpha1.ParseBounds(o.GetAnnotations())
	g.refusal = s.refusalOf(o, bounds, err)
	g.min, g.max, g.target = bounds.Min, bounds.Max, desired(o, bounds)
	sets := s.index.setsIn(o)
	for _, set := range sets {
		g.members = append(g.members, s.index.membersOf(s.index.machinesOf.get(string(set.UID)))...)
	}
	slices.SortFunc(g.members, func(a, b *member) int { return cmp.Compare(a.machine.Name, b.machine.Name) })
	newest := newestSet(sets)
	g.hideGoing(sets)
	g.rolling = g.replacing(newest)
	g.hideSurplus(newest)
	s.list(g)
	g.template = templateNode(o)
	g.options = readOptions(o.GetAnnotations())
	g.debug = g.describe()
	return g
}

// refusalOf says why an object is not a node group; empty when it is one (CA-C17, C18).
func (s *Snapshot) refusalOf(o *owner, bounds v1alpha1.Bounds, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !bounds.Listed:
		return "it has no maximum size"
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
		return max(0, bounds.Clamp(*o.last))
	case bounds.Listed:
		return bounds.Min
	}
	return 1
}

// hideGoing hides what is listed for removal, by UID, in the group's object or in a set of it, and what is being deleted.
func (g *group) hideGoing(sets []*v1alpha1.MachineSet) {
	listed := map[types.UID]bool{}
	for _, r := range g.owner.removals {
		listed[r.UID] = true
	}
	for _, set := range sets {
		for _, r := range set.Spec.Removals {
			listed[r.UID] = true
		}
	}
	for _, m := range g.members {
		switch {
		case listed[m.machine.UID]:
			g.hidden[m.machine.UID] = hiddenListed
		case !m.machine.DeletionTimestamp.IsZero():
			g.hidden[m.machine.UID] = hiddenDeleting
		}
	}
}

// hideSurplus hides as many living Machines as there are beyond the size, those first that are only promises: so an
// update that hangs on a new Machine never costs a node that works, and nothing that comes late is taken for a failed
// scale-up. Then come Machines of an older template, then the order in which a set shrinks.
func (g *group) hideSurplus(newest *v1alpha1.MachineSet) {
	living := g.living()
	g.gap = max(0, g.target-int32(len(living)))
	surplus := len(living) - int(g.target)
	if surplus <= 0 {
		return
	}
	facts := make([]rollout.MachineFacts, 0, len(living))
	byUID := make(map[types.UID]*member, len(living))
	for _, m := range living {
		facts = append(facts, m.facts())
		byUID[m.machine.UID] = m
	}
	order := map[types.UID]int{}
	for i, m := range rollout.Unfulfilled(facts) {
		order[m.UID] = i - len(living)
	}
	for i, m := range rollout.DeletionOrder(facts, policyOf(newest), nil) {
		if _, promised := order[m.UID]; !promised {
			order[m.UID] = i
		}
	}
	slices.SortStableFunc(living, func(a, b *member) int {
		return cmp.Or(
			compareBool(a.registered(), b.registered()),
			compareBool(a.of(newest), b.of(newest)),
			cmp.Compare(order[a.machine.UID], order[b.machine.UID]),
		)
	})
	for _, m := range living[:surplus] {
		g.hidden[m.machine.UID] = hiddenSurplus
	}
}

// living are the members that are neither listed nor being deleted.
func (g *group) living() []*member {
	var living []*member
	for _, m := range g.members {
		if h := g.hidden[m.machine.UID]; h == "" || h == hiddenSurplus {
			living = append(living, m)
		}
	}
	return living
}

// facts tells package rollout what is known of the member.
func (m *member) facts() rollout.MachineFacts {
	f := rollout.Facts(m.machine, 0, m.machine.CreationTimestamp.Time)
	f.NodeRegistered = m.node != nil
	return f
}

// replacing tells whether Machines of an older template are being replaced. With OnDelete, or paused, nobody holds back
// anything.
func (g *group) replacing(newest *v1alpha1.MachineSet) bool {
	return g.owner.rolls && slices.ContainsFunc(g.members, func(m *member) bool { return !m.of(newest) })
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
