package model

// Increase adds delta to a group's size. It refuses an increase above the maximum instead of reducing the increase: after a smaller
// increase the autoscaler would wait for nodes that are not created (CA-C57).
//
// Errors: FailedPrecondition.
func Increase(g *Group, delta int32) (Change, error) {
	if g.Refusal != "" {
		return Change{}, Refusef(FailedPrecondition, "increasing %s: %s", g.ID, g.Refusal)
	}
	if g.Frozen != "" {
		return Change{}, Refusef(FailedPrecondition, "increasing %s: %s", g.ID, g.Frozen)
	}
	size := int64(g.Target) + int64(delta)
	if size > int64(g.Max) {
		return Change{}, Refusef(FailedPrecondition, "increasing %s by %d: its size is %d and its maximum %d", g.ID, delta, g.Target, g.Max)
	}
	return Change{Group: g, Replicas: int32(size)}, nil
}

// Decrease takes back up to -delta replicas without a node: first replicas that have no Machine yet, and then Machines without a node. It
// removes the Machines without a server first, and among equals the newest. It never removes a Machine with a registered node, and stops
// at the minimum (CA-C84 … C87). While a rollout or a freeze delays the creation of Machines, replicas without a Machine
// stay. Only their placeholders get new names, so that the autoscaler's timeout for them starts again.
func Decrease(g *Group, delta int32) Change {
	want := -int64(delta)
	c := Change{Group: g, Replicas: g.Target, Asked: want}
	if g.Gap > 0 {
		c.raiseSeries = true
		units := min(want, int64(g.Gap))
		want -= units
		if !g.Held() {
			c.Replicas -= min(int32(units), g.Lowerable())
			c.raiseSeries = c.Replicas != g.Target
		}
	}
	for _, m := range g.Promises() {
		if want == 0 || c.Replicas <= g.Min {
			break
		}
		c.Remove = append(c.Remove, m)
		c.Replicas--
		want--
	}
	return c
}
