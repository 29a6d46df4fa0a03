package nodegroup

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// selection is what the nodes of one DeleteNodes call mean.
type selection struct {
	group *group
	// live is what the API server itself has of Machines of nodes that the autoscaler made up.
	live Live
	// firm are working nodes: they are removed, or the call is refused.
	firm []*member
	// loose are Machines that failed, or whose node never came: they are accepted in any case, and only lower the size while it
	// is above the minimum.
	loose []*member
	// dying are being deleted already, and do not count: they lower the size by what replaces them, as long as that is no node
	// yet. If they lowered it further, a node would be removed that nobody has named.
	dying []*member
	// surplus do not count either, because there are more than the size: they are removed, and lower nothing.
	surplus []*member
	// rolled are surplus nodes in a rolling update: the autoscaler does not want their replacements either. They lower the size
	// as long as another Machine of an older template counts, which the rollout removes in any case.
	rolled []*member
	// units are replicas without a Machine, by ordinal.
	units map[int32]bool
}

// selectNodes reads the nodes of a DeleteNodes call. One that is not this group's refuses the whole call (CA-C74).
func selectNodes(s *Snapshot, g *group, r Removal) (*selection, error) {
	sel := &selection{group: g, live: r.Live, units: map[int32]bool{}}
	taken := map[types.UID]bool{}
	for _, n := range r.Nodes {
		m := s.named(n)
		if m == nil {
			if err := sel.addUnit(n); err != nil {
				return nil, err
			}
			continue
		}
		if id := s.index.groupOf(m); id != g.id {
			return nil, refuse(FailedPrecondition, "removing from %s: node %s belongs to %s", g.id, n, id)
		}
		if taken[m.uid()] || g.hidden[m.uid()] == hiddenListed {
			continue
		}
		taken[m.uid()] = true
		if err := sel.addMember(m, n); err != nil {
			return nil, err
		}
	}
	return sel, nil
}

// addUnit takes a node that has no Machine: a replica that has none yet, or something that is gone.
func (sel *selection) addUnit(n Node) error {
	g := sel.group
	p, ok := n.placeholder()
	switch {
	case ok && p.group != g.id:
		return refuse(FailedPrecondition, "removing from %s: node %s belongs to %s", g.id, n, p.group)
	case ok && p.template:
		return refuse(FailedPrecondition, "removing from %s: %s is a template, not a node", g.id, n)
	case ok:
		if p.machine == "" && p.series == g.owner.placeholderSeries() && p.ordinal < g.gap {
			sel.units[p.ordinal] = true
		}
		return nil
	case n.fake() || sel.removed(n):
		return nil
	}
	return refuse(FailedPrecondition, "removing from %s: node %s belongs to no machine of it", g.id, n)
}

// removed reports whether the node's Machine was listed and is gone. Node, server and Machine have the same name.
func (sel *selection) removed(n Node) bool {
	return slices.ContainsFunc(sel.group.owner.removals, func(r v1alpha1.Removal) bool { return r.Name == n.Name })
}

func (sel *selection) addMember(m *member, n Node) error {
	made, g := n.madeUp(), sel.group
	switch {
	case made && m.facts().HasNode() && !sel.neverCame(m):
		// The autoscaler works from a list up to two minutes old (CA-C70), and our watch of Nodes may stand still: then the
		// Machine knows its node all the same.
		return refuse(FailedPrecondition, "removing from %s: the node of machine %s has registered meanwhile", g.id, m.machine.Name)
	case g.hidden[m.uid()] == hiddenDeleting:
		sel.dying = append(sel.dying, m)
	case g.hidden[m.uid()] == hiddenSurplus && g.rolling && m.facts().HasNode() && !m.starting():
		sel.rolled = append(sel.rolled, m)
	case g.hidden[m.uid()] == hiddenSurplus:
		sel.surplus = append(sel.surplus, m)
	case made || m.facts().Failed():
		sel.loose = append(sel.loose, m)
	default:
		sel.firm = append(sel.firm, m)
	}
	return nil
}

// neverCame reports whether a Machine that names a Node may be removed as one whose node never came: somebody has deleted the
// Node, or the autoscaler is told that there is none, because it has not started.
func (sel *selection) neverCame(m *member) bool {
	if m.node == nil {
		return sel.live.Gone[m.uid()]
	}
	return sel.group.concealed(m) && !sel.live.Started[m.uid()]
}

// names reports whether the call itself names a member that counts.
func (sel *selection) names(m *member) bool {
	return slices.Contains(sel.loose, m) || slices.Contains(sel.firm, m)
}
