package reach

import (
	"context"
	"fmt"
	"time"
)

const (
	// unreachableAfter is how long an API server must leave calls unanswered before it counts as unreachable.
	unreachableAfter = 30 * time.Second
	// settleFor is how long the caches get to catch up after an API server answers again.
	settleFor = 30 * time.Second
)

// server is what is known of one API server.
type server struct {
	// cluster is the name of its cluster in the metric, and name is its own name in messages.
	cluster, name string
	// ask makes a cheap call.
	ask func(ctx context.Context) error
	// answered is the time of the last answer; zero means that there was none. trusted is the time from which the caches can be relied
	// on: the first answer, or the end of settleFor after the last outage.
	answered, trusted time.Time
}

// answer records that the API server has answered.
func (s *server) answer(now time.Time) {
	switch {
	case s.answered.IsZero():
		s.trusted = now
	case now.Sub(s.answered) >= unreachableAfter:
		s.trusted = now.Add(settleFor)
	}
	s.answered = now
}

// away returns why the API server cannot be reached at present; empty when it can be reached.
func (s *server) away(now time.Time) string {
	switch {
	case s.answered.IsZero():
		return s.name + " has not been reached yet"
	case now.Sub(s.answered) >= unreachableAfter:
		return fmt.Sprintf("%s has not answered since %s", s.name, s.answered.UTC().Format(time.RFC3339))
	}
	return ""
}

// stale returns why the caches of the API server's objects may be out of date; empty when they are not.
func (s *server) stale(now time.Time) string {
	if why := s.away(now); why != "" || !now.Before(s.trusted) {
		return why
	}
	return fmt.Sprintf("%s answers again, and the caches have until %s to catch up", s.name, s.trusted.UTC().Format(time.RFC3339))
}
