package nodegroup

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/rollout"
)

// increase adds delta to a size, never beyond the maximum: less than was asked for would make the
// autoscaler wait for nodes that nobody makes (CA-C57).
func increase(g *group, from, delta int32) (change, error) {
	if g.refusal != "" {
		return change{}, refuse(FailedPrecondition, "increasing %s: %s", g.id, g.refusal)
	}
	if g.frozen != "" {
		return change{}, refuse(FailedPrecondition, "increasing %s: %s", g.id, g.frozen)
	}
	size := int64(from) + int64(delta)
	if size > int64(g.max) {
		return change{}, refuse(FailedPrecondition, "increasing %s by %d: its size is %d and its maximum %d", g.id, delta, from, g.max)
	}
	return change{replicas: int32(size)}, nil
}

// decrease takes back up to -delta promises: units without a Machine first, then Machines without a node, the least
// advanced and newest first. It never touches a Machine whose node is registered, never refuses, and stops at the
// minimum (CA-C84 … C87). Units that a rollout or a freeze holds open are not taken back: their placeholders get new names, so that
// the autoscaler's clock for them starts anew.
func decrease(g *group, delta int32) change {
	want := -int64(delta)
	c := change{replicas: g.target}
	if g.gap > 0 {
		c.raiseSeries = true
		units := min(want, int64(g.gap))
		want -= units
		if !g.held() {
			c.replicas -= min(int32(units), g.lowerable())
			c.raiseSeries = c.replicas != g.target
		}
	}
	for _, m := range g.promises() {
		if want == 0 || c.replicas <= g.min {
			break
		}
		c.remove = append(c.remove, m)
		c.replicas--
		want--
	}
	return c
}

// promises are the Machines that count and have no node, in the order in which they are taken back.
func (g *group) promises() []*member {
	var facts []rollout.MachineFacts
	byUID := map[types.UID]*member{}
	for _, m := range g.members {
		if g.hidden[m.machine.UID] == "" {
			facts = append(facts, m.facts())
			byUID[m.machine.UID] = m
		}
	}
	var list []*member
	for _, m := range rollout.Unfulfilled(facts) {
		list = append(list, byUID[m.UID])
	}
	return list
}

// selection is what the nodes of one DeleteNodes call turn out to mean.
type selection struct {
	// firm are working nodes: they go, or the call is refused.
	firm []*member
	// loose are Machines that failed, or whose node never came: they are accepted in any case, and only lower the size while it is
	// above the minimum.
	loose []*member
	// dying are being deleted already, and count for nothing: they lower the size by what replaces them, as long as that is
	// no node yet. Lower than that a node would go that nobody has named.
	dying []*member
	// surplus do not count either, because there are more than the size says: they go, and lower nothing.
	surplus []*member
	// rolled are surplus nodes in a rolling update: the autoscaler does not want their replacements either. They lower the
	// size as long as another one of an older template counts, which goes unnamed in any case.
	rolled []*member
	// units are replicas without a Machine, by ordinal.
	units map[int32]bool
	// live is what the API server itself says of Machines of nodes that the autoscaler made up.
	live liveFacts
}

// remove lists exactly the named Machines and lowers the size by as many. What is listed, or gone, already changes
// nothing (CA-C65 … C76).
//
// live is what the API server itself says of the Machines whose nodes the autoscaler made up.
func remove(s *Snapshot, g *group, nodes []Node, live liveFacts) (change, error) {
	sel, err := selectNodes(s, g, nodes, live)
	if err != nil {
		return change{}, err
	}
	spare := g.lowerable() - int32(min(len(sel.firm), math.MaxInt32))
	if len(sel.firm) > 0 && spare < 0 {
		return change{}, refuse(FailedPrecondition, "removing %d nodes from %s: its size is %d and its minimum %d", len(sel.firm), g.id, g.target, g.min)
	}
	c := change{remove: slices.Clone(sel.firm)}
	lowered := int32(len(sel.firm))
	for _, m := range sel.loose {
		if spare == 0 {
			c.kept = append(c.kept, m)
			continue
		}
		c.remove = append(c.remove, m)
		lowered++
		spare--
	}
	if len(sel.units) > 0 {
		units := int32(0)
		if !g.held() {
			units = min(spare, int32(len(sel.units)))
		}
		lowered += units
		spare -= units
		c.raiseSeries = g.held() || units > 0
	}
	replaced, promises := g.replacements(sel, spare)
	lowered += replaced
	spare -= replaced
	lowered += min(int32(len(sel.rolled)), spare, g.toRoll(sel))
	// Listed in any case: named again, when more has been ordered meanwhile, they must not lower that.
	c.remove = slices.Concat(c.remove, sel.dying, promises, sel.surplus, sel.rolled)
	c.replicas = g.target - lowered
	return c, nil
}

// replacements are what takes the place of the dying, as long as it is no node, and at most so many: how many there are,
// and which of them are Machines. Those are named, because one that joins a moment later would not be the one that goes.
func (g *group) replacements(sel selection, most int32) (int32, []*member) {
	most = min(most, int32(len(sel.dying)))
	if most <= 0 {
		return 0, nil
	}
	count := min(most, max(0, g.gap-int32(len(sel.units))))
	var machines []*member
	for _, m := range g.promises() {
		if count < most && !slices.Contains(sel.loose, m) && !slices.Contains(sel.firm, m) {
			machines = append(machines, m)
			count++
		}
	}
	return count, machines
}

// toRoll is how many Machines of an older template count, beside those that the call names itself: they go in any case.
func (g *group) toRoll(sel selection) int32 {
	if len(sel.rolled) == 0 {
		return 0
	}
	var count int32
	for _, m := range g.members {
		if g.hidden[m.machine.UID] == "" && !m.of(g.newest) && !slices.Contains(sel.loose, m) && !slices.Contains(sel.firm, m) {
			count++
		}
	}
	return count
}

// selectNodes reads the nodes of a DeleteNodes call. One that is not this group's refuses the whole call (CA-C74).
func selectNodes(s *Snapshot, g *group, nodes []Node, live liveFacts) (selection, error) {
	sel := selection{live: live, units: map[int32]bool{}}
	taken := map[types.UID]bool{}
	for _, n := range nodes {
		m := s.named(n)
		if m == nil {
			if err := sel.addUnit(g, n); err != nil {
				return sel, err
			}
			continue
		}
		if group := s.index.groupOf(m); group != g.id {
			return sel, refuse(FailedPrecondition, "removing from %s: node %s belongs to %s", g.id, n, group)
		}
		if taken[m.machine.UID] || g.hidden[m.machine.UID] == hiddenListed {
			continue
		}
		taken[m.machine.UID] = true
		if err := sel.addMember(g, m, n); err != nil {
			return sel, err
		}
	}
	return sel, nil
}

// addUnit takes a node that no Machine stands for: a replica that has none yet, or something that is gone.
func (sel *selection) addUnit(g *group, n Node) error {
	p, ok := n.placeholder()
	switch {
	case ok && p.group != g.id:
		return refuse(FailedPrecondition, "removing from %s: node %s belongs to %s", g.id, n, p.group)
	case ok && p.template:
		return refuse(FailedPrecondition, "removing from %s: %s is a template, not a node", g.id, n)
	case ok:
		if p.machine == "" && p.series == g.series() && p.ordinal < g.gap {
			sel.units[p.ordinal] = true
		}
		return nil
	case n.fake() || removed(g, n):
		return nil
	}
	return refuse(FailedPrecondition, "removing from %s: node %s belongs to no machine of it", g.id, n)
}

// removed tells whether the node's Machine was listed and is gone. Node, server and Machine bear the same name.
func removed(g *group, n Node) bool {
	for _, r := range g.owner.removals {
		if r.Name == n.Name {
			return true
		}
	}
	return false
}

func (sel *selection) addMember(g *group, m *member, n Node) error {
	made := n.madeUp()
	switch {
	case made && m.facts().HasNode() && !sel.neverCame(g, m):
		// The autoscaler works from a list up to two minutes old (CA-C70), and our watch of Nodes may stand still: then the
		// Machine knows its node all the same.
		return refuse(FailedPrecondition, "removing from %s: the node of machine %s has registered meanwhile", g.id, m.machine.Name)
	case g.hidden[m.machine.UID] == hiddenDeleting:
		sel.dying = append(sel.dying, m)
	case g.hidden[m.machine.UID] == hiddenSurplus && g.rolling && m.facts().HasNode() && !m.starting():
		sel.rolled = append(sel.rolled, m)
	case g.hidden[m.machine.UID] == hiddenSurplus:
		sel.surplus = append(sel.surplus, m)
	case made || m.facts().Failed():
		sel.loose = append(sel.loose, m)
	default:
		sel.firm = append(sel.firm, m)
	}
	return nil
}

// neverCame reports whether a Machine that names a Node may go as one whose node never came: somebody has deleted the Node,
// or the autoscaler is told that there is none, because it has not started.
func (sel *selection) neverCame(g *group, m *member) bool {
	if m.node == nil {
		return sel.live.gone[m.machine.UID]
	}
	return g.concealed(m) && !sel.live.started[m.machine.UID]
}
