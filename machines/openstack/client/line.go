package client

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// usualConcurrent is how many requests of one kind may be in flight at an endpoint whose answers take long. A cloud that carries out
	// one at a time, in 2 s each, answers all of them within 32 s; headTimeout is longer.
	usualConcurrent = 16
	// mostConcurrent is how many may be in flight at an endpoint whose answers are prompt.
	mostConcurrent = 64
	// prompt is the longest time for an answer of an endpoint that may get more than usualConcurrent requests.
	prompt = 5 * time.Second
	// grace is how long a slot is reserved for a request that was called. The reconcile of a woken Machine begins within milliseconds
	// unless all workers are busy.
	grace = 250 * time.Millisecond
)

// line holds the requests of one kind at one endpoint: how many are in flight, and which wait for their turn. It has no clock and no lock
// (see limiter.mu).
//
// A Machine occupies no worker while it waits. When its turn comes, the line calls it, so that it is reconciled again: everything that decides
// whether the request is to be sent at all may have changed while it waited. A slot is reserved for it for a round, which lasts as long as grace.
// If it has not come by then, the line calls the next one, too, and the first of them to come gets the slot. So a Machine that never comes, for
// example because it waits for a back-off, blocks no other.
type line struct {
	endpoint *endpoint
	// lastUsed is the last time at which a request was about to be sent, or ended.
	lastUsed time.Time
	// limit is how many requests may be in flight, at least 1. It is a fraction while it rises.
	limit    float64
	inFlight int
	// waiting holds the requests that have not been called, the oldest first. served is the number of the last turn of each of their groups,
	// and turns that of the last turn of any.
	waiting []*waiter
	served  map[string]int
	turns   int
	// machines holds, by UID, the waiting requests of Machines, and those that were called and have not come.
	machines map[types.UID]*waiter
	// round is the number of this round, from 1. called is how many requests were called in it and have not come.
	round, called int
	// timed is true while a timer ends the round, or the pause of the endpoint.
	timed bool
}

// waiter is a request that waits for its turn.
type waiter struct {
	Caller
	// line is where the request waits, or was called from; nil before and after.
	line *line
	// wake has the request tried again.
	wake func()
	// round is the round in which the request was called; 0 while it was not.
	round int
}

func newLine(of *endpoint) *line {
	return &line{endpoint: of, limit: usualConcurrent, round: 1, served: map[string]int{}, machines: map[types.UID]*waiter{}}
}

// enter reports whether a request may be sent, and takes a slot for it. Otherwise it gives the request a place at the end of the line. A
// request that was called and is too late gets the first place.
func (l *line) enter(w *waiter) bool {
	known := l.machines[w.UID]
	if known != nil {
		w = known
	}
	called := w.round > 0
	switch {
	case called && l.inFlight < int(l.limit), !called && len(l.waiting) == 0 && l.inFlight+l.called < int(l.limit):
		l.leave(w)
		l.inFlight++
		return true
	case called:
		l.leave(w)
		l.waiting = slices.Insert(l.waiting, 0, w)
		delete(l.served, w.Group)
	case known == nil:
		l.waiting = append(l.waiting, w)
	}
	w.line = l
	if w.UID != "" {
		l.machines[w.UID] = w
	}
	return false
}

// leave removes a request from the line.
func (l *line) leave(w *waiter) {
	if w.UID != "" {
		delete(l.machines, w.UID)
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
	if w.round == l.round {
		l.called--
	}
	w.line, w.round = nil, 0
}

// callNext calls a waiting request for each slot that is neither taken nor reserved. The groups take turns, so that a group with many requests
// does not delay a group with few (CAPI-24).
func (l *line) callNext() {
	for len(l.waiting) > 0 && l.inFlight+l.called < int(l.limit) {
		w := slices.MinFunc(l.waiting, func(a, b *waiter) int { return cmp.Compare(l.served[a.Group], l.served[b.Group]) })
		l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
		l.turns++
		l.served[w.Group] = l.turns
		w.round = l.round
		l.called++
		w.wake()
	}
	if len(l.waiting) == 0 {
		clear(l.served)
	}
}

// endRound frees the slots that are reserved for requests that have not come.
func (l *line) endRound() {
	l.round++
	l.called = 0
}

// succeeded raises the limit by one for as many answers as may be in flight (CAPI-17). took is the time from the request to its answer, and
// shared is how many requests were in flight when it came. A late answer ends a limit above usualConcurrent. A prompt one raises it further if
// half of the limit was in use: the answer to a lone request does not show what the endpoint carries out at a time.
func (l *line) succeeded(took time.Duration, shared int) {
	step := 1 / l.limit
	switch {
	case took > prompt:
		l.limit = min(l.limit+step, usualConcurrent)
	case l.limit < usualConcurrent, 2*shared >= int(l.limit):
		l.limit = min(l.limit+step, mostConcurrent)
	}
}

// failed halves the limit. It is called when the endpoint did not answer, or answered that it is overloaded.
func (l *line) failed() { l.limit = max(l.limit/2, 1) }
