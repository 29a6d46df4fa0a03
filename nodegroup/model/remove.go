package model

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Live holds, by UID of the Machine, the results of live reads from the API server. They concern Machines that the autoscaler
// believes to have no node.
type Live struct {
	// Gone holds the Machines that still name a Node although it was deleted.
	Gone map[types.UID]bool
	// Started holds the Machines whose node was reported as not started and has started by now.
	Started map[types.UID]bool
}

// Remove adds the Machines of the nodes to the removals and lowers the size, in most cases by their number. For Machines that do not
// count in the size, such as Machines that are already being deleted, see selection. Machines that are already listed or no
// longer exist change nothing (CA-C65 … C76).
//
// Errors: FailedPrecondition; then no Machine is removed.
func Remove(s *Snapshot, g *Group, nodes []membership.Node, live Live) (Change, error) {
	sel, err := selectNodes(s, g, nodes, live)
	if err != nil {
		return Change{}, err
	}
	spare := g.Lowerable() - int32(min(len(sel.firm), math.MaxInt32))
	if len(sel.firm) > 0 && spare < 0 {
		return Change{}, Refusef(FailedPrecondition, "removing %d nodes from %s: its size is %d and its minimum %d", len(sel.firm), g.ID, g.Target, g.Min)
	}
	c := Change{Group: g, Remove: slices.Clone(sel.firm)}
	lowered := int32(len(sel.firm))
	for _, m := range sel.loose {
		if spare == 0 {
			c.Kept = append(c.Kept, m)
			continue
		}
		c.Remove = append(c.Remove, m)
		lowered++
		spare--
	}
	if len(sel.units) > 0 {
		units := int32(0)
		if !g.Held() {
			units = min(spare, int32(len(sel.units)))
		}
		lowered += units
		spare -= units
		c.raiseSeries = g.Held() || units > 0
	}
	replaced, promises := sel.replacements(spare)
	lowered += replaced
	spare -= replaced
	lowered += min(int32(len(sel.rolled)), spare, sel.toRoll())
	// All of these Machines are added to spec.removals, also those that do not lower the size. A later call that names such a
	// Machine again, after the group has grown, then does not lower the size either.
	c.Remove = slices.Concat(c.Remove, sel.dying, promises, sel.surplus, sel.rolled)
	c.Replicas = g.Target - lowered
	return c, nil
}

// replacements returns how many replacements of the dying Machines have no node yet, at most the given number. The call lowers
// the size by this number. A replacement without a node is either a replica without a Machine or a Machine; the replicas are
// counted first. The counted Machines are returned, too, so that they are removed by name. Otherwise the node of such a Machine
// might register a moment later, and another Machine would be removed instead.
func (sel *selection) replacements(most int32) (int32, []*membership.Member) {
	most = min(most, int32(len(sel.dying)))
	if most <= 0 {
		return 0, nil
	}
	count := min(most, max(0, sel.group.Gap-int32(len(sel.units))))
	var machines []*membership.Member
	for _, m := range sel.group.Promises() {
		if count < most && !sel.names(m) {
			machines = append(machines, m)
			count++
		}
	}
	return count, machines
}

// toRoll returns the number of Machines of an older template that count in the size and that the call does not name. The rollout
// removes these Machines in any case.
func (sel *selection) toRoll() int32 {
	if len(sel.rolled) == 0 {
		return 0
	}
	var count int32
	for _, m := range sel.group.Members {
		if sel.group.Counts(m) && !m.In(sel.group.Newest) && !sel.names(m) {
			count++
		}
	}
	return count
}
