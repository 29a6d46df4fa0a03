package reach

import (
	"fmt"
	"time"
)

const (
	// unreachableAfter is how long an API server must leave calls unanswered before it counts as unreachable.
	unreachableAfter = 30 * time.Second
	// settleFor is how long the caches get to catch up after an API server answers again.
	settleFor = 30 * time.Second
)

// State reports whether the caches can be relied on.
type State struct {
	// Frozen reports whether an API server is unreachable, or has answered again for less than 30 s. While Frozen is true, no
	// Machine or server is created, and no controller decides or collects anything. Deletions that have begun continue.
	Frozen bool
	// Since is when the freeze began; zero when Frozen is false.
	Since time.Time
	// Recovered is the time from which the API servers can be relied on: the end of the last freeze, or their first answer to
	// this process. Durations, for example how long a Node has not been Ready, are measured from no earlier than this time.
	Recovered time.Time
	// Message names the API server and its state for operators; empty when Frozen is false.
	Message string
}

// history is the record of the answers of one API server.
type history struct {
	// name is the API server's name in messages.
	name string
	// began is when the first probe was due. first and answered are the times of the first and of the last answer; zero means
	// that there was no answer.
	began, first, answered time.Time
	// lost is the time of the last answer before the last outage, and found is the time of the first answer after it; both are
	// zero when there was no outage.
	lost, found time.Time
}

// answer records that the API server has answered.
func (h *history) answer(at time.Time) {
	switch {
	case h.answered.IsZero():
		h.first = at
	case at.Sub(h.answered) >= unreachableAfter:
		h.lost, h.found = h.answered, at
	}
	h.answered = at
}

// away returns why the API server cannot be reached at present; empty when it can be reached.
func (h *history) away(now time.Time) string {
	switch silent := now.Sub(h.answered); {
	case h.answered.IsZero():
		return h.name + " has not been reached yet"
	case silent >= unreachableAfter:
		return fmt.Sprintf("%s has been out of reach for %s", h.name, silent.Truncate(time.Second))
	}
	return ""
}

// state returns whether the API server could be relied on at the given time, judging by its answers.
func (h *history) state(now time.Time) State {
	s := State{Recovered: h.first}
	if !h.found.IsZero() {
		s.Recovered = h.found.Add(settleFor)
	}
	switch {
	case h.answered.IsZero():
		s.Frozen, s.Since, s.Message = true, h.began, h.name+" has not been reached yet"
	case now.Sub(h.answered) >= unreachableAfter:
		s.Frozen, s.Since = true, h.answered.Add(unreachableAfter)
		s.Message = fmt.Sprintf("%s has not answered since %s", h.name, h.answered.UTC().Format(time.RFC3339))
	case now.Before(s.Recovered):
		s.Frozen, s.Since = true, h.lost.Add(unreachableAfter)
		s.Message = fmt.Sprintf("%s answers again, and the caches have until %s to catch up", h.name, s.Recovered.UTC().Format(time.RFC3339))
	}
	return s
}

// together combines the states of several API servers: the result is frozen while one of the states is.
func together(states ...State) State {
	var all State
	for _, s := range states {
		if s.Recovered.After(all.Recovered) {
			all.Recovered = s.Recovered
		}
		if !s.Frozen {
			continue
		}
		if !all.Frozen || s.Since.Before(all.Since) {
			all.Since = s.Since
		}
		if all.Frozen = true; all.Message != "" {
			all.Message += "; "
		}
		all.Message += s.Message
	}
	return all
}
