package nodegroup

// Increase is a request to add Delta to a group's size.
type Increase struct{ Delta int32 }

// Decide never goes beyond the maximum: less than was asked for would make the autoscaler wait for nodes that nobody makes
// (CA-C57).
//
// Errors: FailedPrecondition.
func (r Increase) Decide(_ *Snapshot, g *group) (change, error) {
	if g.refusal != "" {
		return change{}, refuse(FailedPrecondition, "increasing %s: %s", g.id, g.refusal)
	}
	if g.frozen != "" {
		return change{}, refuse(FailedPrecondition, "increasing %s: %s", g.id, g.frozen)
	}
	size := int64(g.target) + int64(r.Delta)
	if size > int64(g.max) {
		return change{}, refuse(FailedPrecondition, "increasing %s by %d: its size is %d and its maximum %d", g.id, r.Delta, g.target, g.max)
	}
	return change{group: g, replicas: int32(size)}, nil
}

// Decrease is a request to take back up to -Delta promises.
type Decrease struct{ Delta int32 }

// Decide takes back units without a Machine first, then Machines without a node, the least advanced and newest first. It
// never takes a Machine whose node is registered, never refuses, and stops at the minimum (CA-C84 … C87). Units that a
// rollout or a freeze holds open are not taken back: their placeholders are renamed, so that the autoscaler's clock for them
// starts again.
func (r Decrease) Decide(_ *Snapshot, g *group) (change, error) {
	want := -int64(r.Delta)
	c := change{group: g, replicas: g.target, asked: want}
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
	return c, nil
}
