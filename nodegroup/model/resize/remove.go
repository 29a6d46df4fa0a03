package resize

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Removal is a request to remove exactly the Machines of these nodes.
type Removal struct {
	Nodes []membership.Node
	Live  Live
}

// Live is what the API server itself has of Machines whose nodes the autoscaler made up, by UID, beyond what the watches have
// brought.
type Live struct {
	// Gone are Machines whose Node somebody has deleted although they still name it.
	Gone map[types.UID]bool
	// Started are Machines whose node has started.
	Started map[types.UID]bool
}

// Decide lists exactly the named Machines and lowers the size by as many. What is listed, or gone, already changes nothing
// (CA-C65 … C76).
//
// Errors: FailedPrecondition; nothing is removed then.
func (r Removal) Decide(s *model.Snapshot, id string) (Change, error) {
	g := s.Groups[id]
	sel, err := selectNodes(s, g, r)
	if err != nil {
		return Change{}, err
	}
	spare := g.Lowerable() - int32(min(len(sel.firm), math.MaxInt32))
	if len(sel.firm) > 0 && spare < 0 {
		return Change{}, model.Refusef(model.FailedPrecondition, "removing %d nodes from %s: its size is %d and its minimum %d", len(sel.firm), g.ID, g.Target, g.Min)
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
	// These are listed in any case: named again, when more has been ordered meanwhile, they must not lower that.
	c.Remove = slices.Concat(c.Remove, sel.dying, promises, sel.surplus, sel.rolled)
	c.Replicas = g.Target - lowered
	return c, nil
}

// replacements returns how many units take the place of the dying and are no node yet, at most so many, and which of them are
// Machines. Those are listed, because otherwise one that joins a moment later would not be the one that is removed.
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

// toRoll returns how many Machines of an older template count, beside those that the call names itself: the rollout removes
// them in any case.
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
