package reach

import (
	"fmt"
	"time"
)

const (
	// unreachableAfter is how long an API server may leave questions without an answer before it counts as unreachable.
	unreachableAfter = 30 * time.Second
	// settleFor is how long after an API server answers again the caches may take to show what happened meanwhile.
	settleFor = 30 * time.Second
)

// State reports whether what the caches show can be relied on.
type State struct {
	// Frozen is set while an API server is unreachable, and for 30 s after it answers again: no Machine or server is made, and
	// nothing is judged or collected. Deletions that have begun go on.
	Frozen bool
	// Since is when that began; zero unless Frozen.
	Since time.Time
	// Recovered is from when on the API servers could be relied on: the end of the last freeze, or their first answer to this
	// process. How long something has been so, such as a Node that is not Ready, is measured from then on.
	Recovered time.Time
	// Message says which API server it is, for people; empty unless Frozen.
	Message string
}

// history is what is known of one API server.
type history struct {
	// name is how messages call it.
	name string
	// began is when it was to be asked first, first its first answer, answered its last; zero: there was none.
	began, first, answered time.Time
	// lost and found are the last answer before the last outage and the first one after it; zero: there was none.
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

// away returns why the API server cannot be asked at present; empty when it can.
func (h *history) away(now time.Time) string {
	switch silent := now.Sub(h.answered); {
	case h.answered.IsZero():
		return h.name + " has not been reached yet"
	case silent >= unreachableAfter:
		return fmt.Sprintf("%s has been out of reach for %s", h.name, silent.Truncate(time.Second))
	}
	return ""
}

// state returns what follows from the history at a time.
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
		s.Message = fmt.Sprintf("%s answers again, and what changed meanwhile is awaited until %s", h.name, s.Recovered.UTC().Format(time.RFC3339))
	}
	return s
}

// together returns the state of several API servers: frozen while one of them is.
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
