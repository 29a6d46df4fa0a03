package nodegroup

import "time"

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
		if grp.awaited > 0 {
			g.guarded[id] = now.Add(g.options.RestartGuard)
		}
	}
	g.view.Store(newView(g.view.Load().snapshot, now, g.guards(now)))
}

// guards gives the groups that are to look as if they could not grow, and forgets those that need it no more. The caller
// holds mu.
func (g *Groups) guards(now time.Time) map[string]bool {
	out := make(map[string]bool, len(g.guarded))
	for id, end := range g.guarded {
		if grp := g.model.groups[id]; grp == nil || grp.awaited == 0 || !now.Before(end) {
			delete(g.guarded, id)
			continue
		}
		out[id] = true
	}
	return out
}
