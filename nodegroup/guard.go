package nodegroup

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// settle is how long after the last node of a guarded group takes pods the guard stays: the autoscaler lists pods before it
// asks us, and the scheduler needs a moment.
const settle = 5 * time.Second

// guard keeps a group from growing.
type guard struct {
	// end is when it ends in any case; since, when there was first nothing on its way any more.
	end, since time.Time
}

// over tells whether all that was on its way has been there for long enough. A node that has registered is not there yet:
// until it takes pods they are pending, and the autoscaler would order for them again.
func (w *guard) over(g *group, now time.Time) bool {
	if g.coming > 0 {
		w.since = time.Time{}
		return false
	}
	if w.since.IsZero() {
		w.since = now
	}
	return now.Sub(w.since) >= settle
}

// usable tells whether pods can run on a member's node: it is Ready, and has lost the startup taint.
func (m *member) usable(startup string) bool {
	return m.node != nil && m.facts().NodeReady && !tainted(m.node, startup)
}

func tainted(n *corev1.Node, key string) bool {
	for i := range n.Spec.Taints {
		if n.Spec.Taints[i].Key == key {
			return true
		}
	}
	return false
}

// Started tells that an autoscaler has just come up. It knows nothing of what its predecessor ordered, and from release
// 1.36 on orders again for the same pods. With the guard, groups in which something is awaited do not look as if they could
// grow, until that has come or failed; pods that need more wait as long.
func (g *Groups) Started() {
	if g.options.RestartGuard <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	for id, grp := range g.view.Load().snapshot.groups {
		if grp.coming > 0 {
			g.guarded[id] = &guard{end: now.Add(g.options.RestartGuard)}
		}
	}
	g.view.Store(newView(g.view.Load().snapshot, now, g.guards(now)))
}

// guards gives the groups that are to look as if they could not grow, and forgets those that need it no more. The caller
// holds mu.
func (g *Groups) guards(now time.Time) map[string]bool {
	out := make(map[string]bool, len(g.guarded))
	for id, watch := range g.guarded {
		grp := g.model.groups[id]
		if grp == nil || !now.Before(watch.end) || watch.over(grp, now) {
			delete(g.guarded, id)
			continue
		}
		out[id] = true
	}
	return out
}
