package model

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// selection divides the nodes of one DeleteNodes call by the way in which they are removed.
type selection struct {
	group *Group
	// live holds the results of reads from the API server, for Machines that the autoscaler believes to have no node.
	live Live
	// firm are Machines with working nodes: either they are removed, or the call is refused.
	firm []*membership.Member
	// loose are Machines that failed, or whose node never registered. drover never refuses the call because of them: those whose
	// removal would lower the size below the minimum stay.
	loose []*membership.Member
	// dying are Machines that are already being deleted, so they do not count in the size. The call lowers the size by the number
	// of their replacements that have no node yet, and by no more: a lower size would remove a node that the call does not name.
	dying []*membership.Member
	// surplus are surplus Machines, which do not count in the size either. They are removed, and the size stays.
	surplus []*membership.Member
	// rolled are surplus Machines of a rolling update. The autoscaler does not want their replacements, so the call also lowers
	// the size by their number. It lowers the size by at most the number of Machines of an older template that it does not name,
	// because the rollout removes those Machines in any case.
	rolled []*membership.Member
	// units are the ordinals of replicas without a Machine.
	units map[int32]bool
}

// selectNodes divides the nodes of a DeleteNodes call by the way in which they are removed. It refuses the whole call when one node
// is not of this group (CA-C74).
func selectNodes(s *Snapshot, g *Group, nodes []membership.Node, live Live) (*selection, error) {
	sel := &selection{group: g, live: live, units: map[int32]bool{}}
	taken := map[types.UID]bool{}
	for _, n := range nodes {
		m := s.Named(n)
		if m == nil {
			if err := sel.addUnit(n); err != nil {
				return nil, err
			}
			continue
		}
		if id := s.Index.GroupOf(m); id != g.ID {
			return nil, Refusef(FailedPrecondition, "removing from %s: node %s belongs to %s", g.ID, n, id)
		}
		if taken[m.UID()] || g.Hidden[m.UID()] == HiddenListed {
			continue
		}
		taken[m.UID()] = true
		if err := sel.addMember(m, n); err != nil {
			return nil, err
		}
	}
	return sel, nil
}

// addUnit adds a node without a Machine: a placeholder of a replica, or a node whose Machine no longer exists.
func (sel *selection) addUnit(n membership.Node) error {
	g := sel.group
	p, ok := n.Placeholder()
	switch {
	case ok && p.Group != g.ID:
		return Refusef(FailedPrecondition, "removing from %s: node %s belongs to %s", g.ID, n, p.Group)
	case ok && p.Template:
		return Refusef(FailedPrecondition, "removing from %s: %s is a template, not a node", g.ID, n)
	case ok:
		if p.Machine == "" && p.Series == g.Owner.PlaceholderSeries() && p.Ordinal < g.Gap {
			sel.units[p.Ordinal] = true
		}
		return nil
	case n.Fake() || sel.removed(n):
		return nil
	}
	return Refusef(FailedPrecondition, "removing from %s: node %s belongs to no machine of the group", g.ID, n)
}

// removed reports whether the node's Machine was listed for removal and no longer exists. Node, server and Machine have the
// same name.
func (sel *selection) removed(n membership.Node) bool {
	return slices.ContainsFunc(sel.group.Owner.Removals, func(r v1alpha1.Removal) bool { return r.Name == n.Name })
}

func (sel *selection) addMember(m *membership.Member, n membership.Node) error {
	made, g := n.MadeUp(), sel.group
	switch {
	case made && m.Facts.HasNode() && !sel.neverCame(m):
		// The autoscaler asks to remove a Machine without a node, because its list is up to two minutes old (CA-C70) or drover's
		// watch of Nodes lags. But the Machine's status already names a node.
		return Refusef(FailedPrecondition, "removing from %s: the node of machine %s has registered meanwhile", g.ID, m.Machine.Name)
	case g.Hidden[m.UID()] == HiddenDeleting:
		sel.dying = append(sel.dying, m)
	case g.Hidden[m.UID()] == HiddenSurplus && g.Rolling && m.Facts.HasNode() && !m.Starting():
		sel.rolled = append(sel.rolled, m)
	case g.Hidden[m.UID()] == HiddenSurplus:
		sel.surplus = append(sel.surplus, m)
	case made || m.Facts.Failed():
		sel.loose = append(sel.loose, m)
	default:
		sel.firm = append(sel.firm, m)
	}
	return nil
}

// neverCame reports whether a Machine whose status names a Node may be removed as if its node had never registered: the Node was
// deleted, or the Node is hidden from the autoscaler because it has not started.
func (sel *selection) neverCame(m *membership.Member) bool {
	if m.Node == nil {
		return sel.live.Gone[m.UID()]
	}
	return sel.group.Concealed(m) && !sel.live.Started[m.UID()]
}

// names reports whether m is one of the Machines that the call names and that count in the size.
func (sel *selection) names(m *membership.Member) bool {
	return slices.Contains(sel.loose, m) || slices.Contains(sel.firm, m)
}
