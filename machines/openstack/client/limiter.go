package client

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// patience is how long a request that is not made for a Machine waits for its turn. It is short compared with callTimeout, so that
	// enough time is left for the response.
	patience = 2 * time.Second
	// askAgain is the time after which a waiting Machine retries even if it has not been woken. It keeps its place in the line.
	askAgain = 30 * time.Second
)

// limits holds one limiter for each service and host.
type limits struct {
	clock clock.WithDelayedExecution
	// wake enqueues a Machine whose waiting request may be sent now.
	wake      func(types.NamespacedName)
	mu        sync.Mutex
	endpoints map[endpointKey]*endpointLimiter
}

type endpointKey struct {
	service Service
	host    string
}

func newLimits(c clock.WithDelayedExecution, wake func(types.NamespacedName)) *limits {
	return &limits{clock: c, wake: wake, endpoints: map[endpointKey]*endpointLimiter{}}
}

// endpoint returns the limiter of an endpoint, and records that it is used now.
func (l *limits) endpoint(s Service, host string) *endpointLimiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := endpointKey{s, printable(host)}
	e, ok := l.endpoints[key]
	if !ok {
		e = &endpointLimiter{clock: l.clock, wake: l.wake, service: s, lines: map[requestKind]*line{}}
		l.endpoints[key] = e
	}
	e.lastUsed = l.clock.Now()
	return e
}

// sweep removes the lines and the limiters that were last used before the given time.
func (l *limits) sweep(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.endpoints, func(_ endpointKey, e *endpointLimiter) bool {
		return e.sweep(before) == 0 && e.lastUsed.Before(before)
	})
}

// forget removes the waiting requests of a Machine.
func (l *limits) forget(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.endpoints {
		e.forget(machine)
	}
}

// endpointLimiter decides when a request is sent to one endpoint. Each kind of request has its own line; all kinds share the pauses that the
// endpoint asks for.
type endpointLimiter struct {
	clock   clock.WithDelayedExecution
	wake    func(types.NamespacedName)
	service Service
	// lastUsed is the last time at which a request was about to be sent. It is guarded by limits.mu.
	lastUsed time.Time

	mu sync.Mutex
	// pausedUntil is when the pause ends that the endpoint asked for last (429, 503 with Retry-After: CAPI-16).
	pausedUntil time.Time
	lines       map[requestKind]*line
}

// acquire returns the line of a request that may be sent; the caller must call release afterwards. Otherwise it returns a RateLimited error
// with the time after which to retry. The error's code is RateLimited while the endpoint is paused, and WaitingForTurn while the
// request's turn has not come. For a Machine, acquire returns the error immediately, keeps the Machine's place in the line and
// wakes the Machine later. For any other caller, acquire first waits up to 2 s (patience).
func (e *endpointLimiter) acquire(ctx context.Context, kind requestKind, by Caller) (*line, error) {
	if by.UID != "" {
		return e.enter(kind, &waiter{Caller: by, wake: func() { e.wake(by.Key) }}, askAgain)
	}
	turn := make(chan struct{}, 1)
	w := &waiter{Caller: by, wake: func() { turn <- struct{}{} }}
	defer e.leave(kind, w)
	timer := e.clock.NewTimer(patience)
	defer timer.Stop()
	for {
		l, err := e.enter(kind, w, patience)
		if err == nil || fault.Of(err).Code != fault.CodeWaitingForTurn {
			return l, err
		}
		select {
		case <-turn:
		case <-timer.C():
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// enter takes a slot for a request, or puts it into the line. The error for a request in the line asks to retry after the duration again.
func (e *endpointLimiter) enter(kind requestKind, w *waiter, again time.Duration) (*line, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if left := e.paused(now); left > 0 {
		return nil, e.resting(left)
	}
	l := e.line(kind)
	entered := l.enter(w)
	e.callNext(l, now)
	if !entered {
		return nil, e.waiting(again)
	}
	return l, nil
}

// leave removes a request that no longer waits from its line.
func (e *endpointLimiter) leave(kind requestKind, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.lines[kind]; l != nil {
		l.leave(w)
		e.callNext(l, e.clock.Now())
	}
}

// forget removes the waiting requests of a Machine.
func (e *endpointLimiter) forget(machine types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lines {
		if w := l.machines[machine]; w != nil {
			l.leave(w)
			e.callNext(l, e.clock.Now())
		}
	}
}

// sweep removes the lines that were last used before the given time, and returns how many are left.
func (e *endpointLimiter) sweep(before time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.lines, func(_ requestKind, l *line) bool {
		return l.inFlight == 0 && len(l.waiting) == 0 && l.lastUsed.Before(before)
	})
	return len(e.lines)
}

// result is the outcome of a request.
type result struct {
	// unsent is true when the request got a slot but was not sent.
	unsent bool
	// answered is true when the endpoint answered, unless it answered that it is unavailable (503 or 504).
	answered bool
	// rest is the pause that the endpoint asked for; zero when it asked for none.
	rest time.Duration
}

// release frees the slot of a request, and adapts the limit to the result of the request.
func (e *endpointLimiter) release(l *line, how result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	l.lastUsed = now
	l.inFlight--
	if until := now.Add(how.rest); until.After(e.pausedUntil) {
		e.pausedUntil = until
	}
	switch {
	case how.unsent:
	case how.answered && how.rest == 0:
		l.succeeded()
	default:
		l.failed()
	}
	e.callNext(l, now)
}

// paused returns the remaining time of the endpoint's pause; 0 when there is none. The caller must hold mu, as for all methods below.
func (e *endpointLimiter) paused(now time.Time) time.Duration { return max(e.pausedUntil.Sub(now), 0) }

// line returns the line of a kind of request.
func (e *endpointLimiter) line(kind requestKind) *line {
	l, ok := e.lines[kind]
	if !ok {
		l = newLine()
		e.lines[kind] = l
	}
	l.lastUsed = e.clock.Now()
	return l
}

// callNext calls the next requests of a line, unless the endpoint is paused. It looks again at the end of the pause, or when the requests that
// were called should have come.
func (e *endpointLimiter) callNext(l *line, now time.Time) {
	again, needed := e.paused(now), len(l.waiting) > 0
	if again == 0 {
		l.callNext()
		again, needed = grace, l.called > 0
	}
	if l.timed || !needed {
		return
	}
	l.timed = true
	// Run the function in its own goroutine, because a simulated clock calls it with its lock held.
	e.clock.AfterFunc(again, func() { go e.endRound(l) })
}

// endRound frees the slots that were reserved for requests that have not come. It acquires mu itself.
func (e *endpointLimiter) endRound(l *line) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.timed = false
	l.endRound()
	e.callNext(l, e.clock.Now())
}

func (e *endpointLimiter) resting(left time.Duration) error {
	// The text is shown in conditions, so it must not change with each request that is not sent.
	until := e.clock.Now().Add(left).Round(time.Second).UTC().Format(time.RFC3339)
	err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service asked drover to send no requests until %s", e.service, until)
	err.RetryAfter = left
	return err
}

func (e *endpointLimiter) waiting(again time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "waiting for other requests of drover to the %s service", e.service)
	err.RetryAfter = again
	return err
}
