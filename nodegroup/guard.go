package nodegroup

import (
	"time"

	"github.com/drover-project/drover/nodegroup/model"
)

// settledAfter is how long a guarded group still may not grow once pods can run on its last awaited node. The scheduler needs a
// moment to bind the pods, and the autoscaler lists pods before it calls drover.
const settledAfter = 5 * time.Second

// guard keeps a group from growing after the restart of an autoscaler.
type guard struct {
	// end is when the guard ends at the latest. since is when the last awaited node became usable; zero while a node is awaited.
	end, since time.Time
}

// over reports whether all awaited nodes have been usable for settledAfter. A node that has only registered is still awaited: pods
// stay pending until they can run on the node, and the autoscaler would order another node for them.
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

// guards returns the ids of the groups that must be reported as unable to grow, and deletes the guards that have ended. The caller
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
