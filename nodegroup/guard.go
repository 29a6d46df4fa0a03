package nodegroup

import (
	"time"

	"github.com/drover-project/drover/nodegroup/model"
)

// settledAfter is how long the guard stays after pods can run on the last awaited node. The autoscaler lists pods before it
// calls drover, and the scheduler needs a moment.
const settledAfter = 5 * time.Second

// guard keeps a group from growing after the restart of an autoscaler.
type guard struct {
	// end is when the guard ends in any case. since is the time since which no node has been awaited.
	end, since time.Time
}

// over reports whether all awaited nodes have been usable for settledAfter. A node that has only registered is still awaited:
// its pods are pending until they can run on the node, and the autoscaler would order again for those pods.
func (w *guard) over(g *model.Group, now time.Time) bool {
	if g.Coming > 0 {
		w.since = time.Time{}
		return false
	}
	if w.since.IsZero() {
		w.since = now
	}
	return now.Sub(w.since) >= settledAfter
}

// guard keeps the groups that await nodes from growing, for at most the given time.
func (s *store) guard(most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, published := s.clock.Now(), s.published()
	for id, grp := range published.Groups {
		if grp.Coming > 0 {
			s.guarded[id] = &guard{end: now.Add(most)}
		}
	}
	s.view.Store(model.NewView(published, now, s.guards(now)))
}

// guards returns the ids of the groups to be reported as unable to grow, and drops the guards that have ended. The caller
// holds mu.
func (s *store) guards(now time.Time) map[string]bool {
	out := make(map[string]bool, len(s.guarded))
	for id, watch := range s.guarded {
		grp := s.newest.Groups[id]
		if grp == nil || !now.Before(watch.end) || watch.over(grp, now) {
			delete(s.guarded, id)
			continue
		}
		out[id] = true
	}
	return out
}
