package nodegroup

import (
	"time"

	"github.com/drover-project/drover/nodegroup/model"
)

// settledAfter is how long the guard stays after pods can run on the last node of a guarded group: the autoscaler lists pods
// before it asks us, and the scheduler needs a moment.
const settledAfter = 5 * time.Second

// guard keeps a group from growing after the restart of an autoscaler.
type guard struct {
	// end is when it ends in any case; since is when nothing was on its way any more.
	end, since time.Time
}

// over reports whether all that was on its way has been there for long enough. A node that has only registered is still on its
// way: until pods can run on it they are pending, and the autoscaler would order for them again.
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

// guard keeps the groups in which nodes are on their way from growing, for at most that time.
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

// guards returns the ids of the groups that are to look as if they could not grow, and forgets those that need it no more.
// The caller holds mu.
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
