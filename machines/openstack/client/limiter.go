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

// limiter decides when requests are sent.
type limiter struct {
	clock clock.WithDelayedExecution
	// wake enqueues a Machine whose waiting request may be sent now.
	wake func(types.NamespacedName)

	mu        sync.Mutex
	endpoints map[endpointKey]*endpoint
}

type endpointKey struct {
	service Service
	host    string
}

// endpoint is what is known of one service at one host. Each kind of request has its own line; all share the pauses.
type endpoint struct {
	// pausedUntil is when the pause ends that the endpoint asked for last (429, 503 with Retry-After: CAPI-16).
	pausedUntil time.Time
	lines       map[requestKind]*line
}

// paused returns the remaining time of the pause; 0 when there is none.
func (e *endpoint) paused(now time.Time) time.Duration { return max(e.pausedUntil.Sub(now), 0) }

func newLimiter(c clock.WithDelayedExecution, wake func(types.NamespacedName)) *limiter {
	return &limiter{clock: c, wake: wake, endpoints: map[endpointKey]*endpoint{}}
}

// acquire returns the line of a request that may be sent; the caller must call release afterwards. Otherwise it returns a RateLimited error
// with the time after which to retry. The error's code is RateLimited when the endpoint is paused, and WaitingForTurn when the
// request's turn has not come, also when a pause has begun meanwhile. For a Machine, acquire returns the error immediately, keeps the Machine's place in the line and
// wakes the Machine later. For any other caller, acquire first waits up to 2 s (patience).
func (l *limiter) acquire(ctx context.Context, to endpointKey, kind requestKind, by Caller) (*line, error) {
	if by.UID != "" {
		return l.enter(to, kind, &waiter{Caller: by, wake: func() { l.wake(by.Key) }}, askAgain)
	}
	turn := make(chan struct{}, 1)
	w := &waiter{Caller: by, wake: func() { turn <- struct{}{} }}
	defer l.leave(w)
	timer := l.clock.NewTimer(patience)
	defer timer.Stop()
	for {
		got, err := l.enter(to, kind, w, patience)
		if err == nil || fault.Of(err).Code != fault.CodeWaitingForTurn {
			return got, err
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

// enter takes a slot for a request. If no slot is free, it puts the request into the line and returns an error of code WaitingForTurn, which
// asks to retry after retryAfter.
func (l *limiter) enter(to endpointKey, kind requestKind, w *waiter, retryAfter time.Duration) (*line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, into := l.clock.Now(), l.line(to, kind)
	if left := into.endpoint.paused(now); left > 0 {
		// The text is shown in conditions, so it must not change with each request that is not sent.
		until := now.Add(left).Round(time.Second).UTC().Format(time.RFC3339)
		return nil, notYet(left, fault.CodeRateLimited, "the %s service asked drover to send no requests until %s", to.service, until)
	}
	entered := into.enter(w)
	l.callNext(into, now)
	if !entered {
		return nil, notYet(retryAfter, fault.CodeWaitingForTurn, "waiting for other requests of drover to the %s service", to.service)
	}
	return into, nil
}

func notYet(retryAfter time.Duration, code fault.Code, format string, args ...any) error {
	err := fault.New(fault.RateLimited, code, format, args...)
	err.RetryAfter = retryAfter
	return err
}

// leave removes a request that waits no longer from its line.
func (l *limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from := w.line; from != nil {
		from.leave(w)
		l.callNext(from, l.clock.Now())
	}
}

// result is the outcome of a request.
type result struct {
	// unsent is true when the request got a slot but was not sent.
	unsent bool
	// answered is true when the endpoint answered, unless it answered that it is unavailable (503 or 504). took is the time to the answer.
	answered bool
	took     time.Duration
	// rest is the pause that the endpoint asked for; zero when it asked for none.
	rest time.Duration
}

// release frees the slot of a request, and adapts the limit to the result of the request.
func (l *limiter) release(of *line, how result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	of.lastUsed = now
	shared := of.inFlight
	of.inFlight--
	if until := now.Add(how.rest); until.After(of.endpoint.pausedUntil) {
		of.endpoint.pausedUntil = until
	}
	switch {
	case how.unsent:
	case how.answered && how.rest == 0:
		of.succeeded(how.took, shared)
	default:
		of.failed()
	}
	l.callNext(of, now)
}

// forget removes the waiting requests of a Machine.
func (l *limiter) forget(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.endpoints {
		for _, of := range e.lines {
			if w := of.machines[machine]; w != nil {
				of.leave(w)
				l.callNext(of, l.clock.Now())
			}
		}
	}
}

// sweep removes the lines that were last used before the given time, and the endpoints without a line.
func (l *limiter) sweep(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.endpoints, func(_ endpointKey, e *endpoint) bool {
		maps.DeleteFunc(e.lines, func(_ requestKind, of *line) bool {
			return of.inFlight == 0 && len(of.waiting) == 0 && of.lastUsed.Before(before)
		})
		return len(e.lines) == 0
	})
}

// line returns the line of a kind of request, and records that it is used now. The caller must hold mu.
func (l *limiter) line(to endpointKey, kind requestKind) *line {
	to.host = printable(to.host)
	e, ok := l.endpoints[to]
	if !ok {
		e = &endpoint{lines: map[requestKind]*line{}}
		l.endpoints[to] = e
	}
	of, ok := e.lines[kind]
	if !ok {
		of = newLine(e)
		e.lines[kind] = of
	}
	of.lastUsed = l.clock.Now()
	return of
}

// callNext calls the next requests of a line, unless the endpoint is paused. It looks again at the end of the pause, or when the requests that
// were called should have come. The caller must hold mu.
func (l *limiter) callNext(of *line, now time.Time) {
	again, needed := of.endpoint.paused(now), len(of.waiting) > 0
	if again == 0 {
		of.callNext()
		again, needed = grace, of.called > 0
	}
	if of.timed || !needed {
		return
	}
	of.timed = true
	// Run the function in its own goroutine, because a simulated clock calls it with its lock held.
	l.clock.AfterFunc(again, func() { go l.endRound(of) })
}

// endRound frees the slots that were reserved for requests that have not come.
func (l *limiter) endRound(of *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of.timed = false
	of.endRound()
	l.callNext(of, l.clock.Now())
}
