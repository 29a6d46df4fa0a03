package autoscaler

import (
	"context"
)

// revertLate reverts scale-ups that were not fulfilled in time. It reverts the whole increase, even when most of its
// nodes registered.
func (a *Autoscaler) revertLate(ctx context.Context, v *View) {
	for i := range v.Groups {
		g := &v.Groups[i]
		increase, late := a.memory.late(v, g)
		if !late {
			continue
		}
		a.o.Log.Info("Scale-up timed out", "group", g.ID, "increase", increase)
		a.backOff(v, g)
		if err := a.provider.decrease(ctx, g.ID, increase); err != nil {
			a.o.Log.Error(err, "Failed to take back a scale-up", "group", g.ID)
		}
	}
}

// backOff makes a group back off. Like cluster-autoscaler, it does not record the back-off of a group without a template.
func (a *Autoscaler) backOff(v *View, g *GroupView) {
	if g.Template != nil {
		a.memory.stumbled(g.ID, v.Now, a.o)
	}
}

// backOffFailed makes each group back off whose scale-up has instances that have newly failed.
func (a *Autoscaler) backOffFailed(v *View) {
	fresh := a.memory.newlyFailed(v)
	for i := range v.Groups {
		g := &v.Groups[i]
		failed := fresh[g.ID]
		if _, growing := a.memory.requests[g.ID]; !growing || len(failed) == 0 {
			continue
		}
		a.o.Log.Info("Group backs off", "group", g.ID, "code", failed[0].Code, "message", failed[0].Message)
		a.memory.fell(g.ID, len(failed))
		a.backOff(v, g)
	}
}

// fixSizes lowers target sizes by the number of nodes that never registered. As in cluster-autoscaler, an error ends the loop for
// all groups.
func (a *Autoscaler) fixSizes(ctx context.Context, v *View) (bool, error) {
	fixed := false
	for _, c := range corrections(v, a.memory) {
		a.o.Log.Info("Lowering a target size whose nodes never registered", "group", c.Group, "by", c.Delta)
		if err := a.provider.decrease(ctx, c.Group, c.Delta); err != nil {
			return fixed, err
		}
		fixed = true
	}
	return fixed, nil
}

// grow increases one group for pods that fit on no node. With EnforceMinSize it also increases all groups to their minimum.
func (a *Autoscaler) grow(ctx context.Context, v *View) (bool, error) {
	wanted, err := a.wanted(ctx, v)
	if err != nil {
		return false, err
	}
	grown := false
	for _, w := range wanted {
		if err := a.provider.increase(ctx, w.Group, w.Delta); err != nil {
			a.memory.stumbled(w.Group, v.Now, a.o)
			return grown, err
		}
		a.o.Log.Info("Scaled up", "group", w.Group, "by", w.Delta, "reason", w.Reason)
		grown = true
		a.instances.invalidate(w.Group)
		// cluster-autoscaler reads the provisioning time here. When that fails, it does not record the scale-up.
		if _, err := a.settings(ctx, w.Group); err != nil {
			a.o.Log.Error(err, "Failed to read the options of a group: its scale-up is not recorded", "group", w.Group)
			continue
		}
		a.memory.grew(w.Group, w.Delta, v.Now)
	}
	return grown, nil
}

// wanted returns the groups to increase, with the amounts.
func (a *Autoscaler) wanted(ctx context.Context, v *View) ([]Increase, error) {
	g := growth{view: v, memory: a.memory, balance: a.o.BalanceSimilar, ignored: a.o.BalancingIgnore}
	if len(v.Pending) > 0 {
		g.atOnce = a.atOnce(ctx, v)
	}
	ways := g.ways()
	best := mostHelpful(ways)
	if a.o.PriceExpander && best != nil {
		costs, small := prices{a.provider, a.o.Log}.of(ctx, v.Now, ways)
		best = cheapest(ways, costs, small, len(v.Nodes))
	}
	switch {
	case best != nil:
		sizes, err := a.sizesOf(ctx, *best)
		return best.increases(sizes), err
	case a.o.EnforceMinSize:
		return belowMin(v), nil
	}
	return nil, nil
}

// sizesOf requests the current target sizes of all groups of a possible scale-up. An error ends the scale-up.
func (a *Autoscaler) sizesOf(ctx context.Context, w way) (map[string]int, error) {
	sizes := map[string]int{}
	for _, g := range append([]*GroupView{w.group}, w.peers...) {
		size, err := a.provider.targetSize(ctx, g.ID)
		if err != nil {
			return nil, err
		}
		sizes[g.ID] = size
	}
	return sizes, nil
}

// atOnce returns the groups that grow to their maximum at once, because their option ZeroOrMaxNodeScaling is set. Like
// cluster-autoscaler, it requests the options of each group twice. It leaves out a group whose last request fails.
func (a *Autoscaler) atOnce(ctx context.Context, v *View) map[string]bool {
	out := map[string]bool{}
	for range 2 {
		for i := range v.Groups {
			id := v.Groups[i].ID
			s, err := a.settings(ctx, id)
			out[id] = err == nil && s.ZeroOrMax
		}
	}
	return out
}

// shrink removes nodes that have been unneeded for long enough, unless the cluster has just grown or a removal has just failed.
func (a *Autoscaler) shrink(ctx context.Context, v *View) (bool, error) {
	sizes, settings, err := a.candidates(ctx, v)
	if err != nil {
		return false, err
	}
	candidates := unneeded(v, a.memory, settings, spareOf(v, sizes, a.remover.inFlight()))
	seen := map[string]bool{}
	for _, c := range candidates {
		seen[c.Node.Name] = true
	}
	keep(a.memory.unneeded, seen, v.Now)
	if v.Now.Sub(a.memory.lastAdd) < a.o.ScaleDownDelayAfterAdd || a.remover.failedSince(v.Now.Add(-a.o.ScaleDownDelayAfterFailure)) {
		return false, nil
	}
	acted := false
	for _, c := range candidates {
		if v.Now.Sub(a.memory.unneeded[c.Node.Name]) < c.After {
			continue
		}
		acted = a.remover.start(ctx, c) || acted
	}
	return acted, nil
}

// candidates reads again what scale-down needs: the groups' sizes, twice, and the group and options of each node. It leaves out
// groups and nodes whose calls fail.
func (a *Autoscaler) candidates(ctx context.Context, v *View) (map[string]int, map[string]Settings, error) {
	sizes, settings := map[string]int{}, map[string]Settings{}
	for range 2 {
		for _, g := range v.Groups {
			size, err := a.provider.targetSize(ctx, g.ID)
			if err != nil {
				delete(sizes, g.ID)
				continue
			}
			sizes[g.ID] = size
		}
	}
	for range 4 {
		for _, n := range v.Nodes {
			_, _ = a.provider.forNode(ctx, n.Node)
		}
	}
	for _, n := range v.Nodes {
		if n.Group == "" {
			continue
		}
		for range 2 {
			s, err := a.settings(ctx, n.Group)
			if err == nil {
				settings[n.Name] = s
			}
		}
	}
	return sizes, settings, ctx.Err()
}
