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
	// mostConcurrent is the maximum number of requests of one kind in flight at an endpoint, whatever the latency shows.
	mostConcurrent = 64
	// patience is how long a request that is not made for a Machine waits for its turn. It is short compared with callTimeout, so that
	// enough time is left for the response.
	patience = 2 * time.Second
	// paceAhead is the maximum time for which a request may occupy a worker while it waits for its turn under the rate limit.
	paceAhead = patience / 2
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
		e = &endpointLimiter{clock: l.clock, wake: l.wake, service: s, queues: map[requestKind]*queue{}}
		l.endpoints[key] = e
	}
	e.lastUsed = l.clock.Now()
	return e
}

// sweep removes the queues and the limiters that were last used before the given time. The limits that they have learned about
// their endpoints are lost.
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

// endpointLimiter decides when a request is sent to one endpoint. Each kind of request has its own queue and concurrency limit; all
// kinds share the endpoint's rate limit and its pauses.
type endpointLimiter struct {
	clock   clock.WithDelayedExecution
	wake    func(types.NamespacedName)
	service Service
	// lastUsed is the last time at which a request was about to be sent. It is guarded by limits.mu.
	lastUsed time.Time

	mu     sync.Mutex
	rate   Rate
	queues map[requestKind]*queue
}

// request is a request that may be sent once its turn under the endpoint's rate limit has come.
type request struct {
	queue *queue
	turn  time.Time
	// delayed is true when the request had to wait for its turn.
	delayed bool
	// inFlight is the number of requests of the same kind in flight when this request got its slot, including itself.
	inFlight int
	sent     time.Time
}

// acquire returns a request that may be sent; the caller must call release afterwards. Otherwise it returns a RateLimited error
// with the time after which to retry. The error's code is RateLimited while the endpoint is paused, and WaitingForTurn while the
// request's turn has not come. For a Machine, acquire returns the error immediately, keeps the Machine's position in the queue and
// wakes the Machine later. For any other caller, acquire first waits up to 2 s (patience).
func (e *endpointLimiter) acquire(ctx context.Context, kind requestKind, by Caller) (*request, error) {
	e.mu.Lock()
	now := e.clock.Now()
	if left := e.rate.Paused(now); left > 0 {
		e.mu.Unlock()
		return nil, e.resting(left)
	}
	q := e.queue(kind)
	if by.UID != "" {
		r := e.arrive(q, by, now)
		e.mu.Unlock()
		if r == nil {
			return nil, e.waiting(askAgain)
		}
		return e.untilTurn(ctx, r)
	}
	w := &waiter{Caller: by, ready: make(chan struct{})}
	q.line.Push(by.Group, w)
	e.fill(q, now)
	e.mu.Unlock()
	r, err := e.await(ctx, q, w)
	if err != nil {
		return nil, err
	}
	return e.untilTurn(ctx, r)
}

// await waits until the queue has a slot for the request, but no longer than 2 s (patience).
func (e *endpointLimiter) await(ctx context.Context, q *queue, w *waiter) (*request, error) {
	timer := e.clock.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-timer.C():
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case w.request != nil:
		return w.request, nil
	case q.line.Remove(w.Group, w):
		return nil, e.waiting(patience)
	}
	return nil, e.resting(e.rate.Paused(e.clock.Now()))
}

// untilTurn waits for the request's turn under the endpoint's rate limit.
func (e *endpointLimiter) untilTurn(ctx context.Context, r *request) (*request, error) {
	if wait := r.turn.Sub(e.clock.Now()); wait > 0 {
		timer := e.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			e.release(r, result{unsent: true})
			return nil, e.waiting(patience)
		}
	}
	e.mu.Lock()
	r.sent = e.clock.Now()
	left := e.rate.Paused(r.sent)
	e.mu.Unlock()
	if left > 0 {
		e.release(r, result{unsent: true})
		return nil, e.resting(left)
	}
	return r, nil
}

// result is the outcome of a request.
type result struct {
	// unsent is true when the request got a slot but was not sent, for example because a pause of the endpoint had begun.
	unsent bool
	// answered is true when the endpoint answered, unless it answered that it is unavailable (503 or 504).
	answered bool
	// rest is the pause that the endpoint asked for; zero when it asked for none.
	rest time.Duration
}

// release frees the slot of a request, and adapts the limits to the result of the request.
func (e *endpointLimiter) release(r *request, how result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, now := r.queue, e.clock.Now()
	q.lastUsed = now
	q.inFlight--
	switch {
	case how.unsent:
		e.rate.Return()
	case how.rest > 0:
		e.rate.Refused(now, how.rest)
		for _, q := range e.queues {
			e.interrupt(q, now)
		}
	case how.answered:
		e.rate.Passed(now, r.delayed)
		q.concurrency.Done(now, now.Sub(r.sent), r.inFlight)
	default:
		q.concurrency.Failed()
	}
	e.fill(q, now)
}

func (e *endpointLimiter) resting(left time.Duration) error {
	// The text is shown in conditions, so it must not change with each request that is not sent.
	until := e.clock.Now().Add(left).Round(time.Second).UTC().Format(time.RFC3339)
	err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service asked drover to send no requests until %s", e.service, until)
	err.RetryAfter = left
	return err
}

func (e *endpointLimiter) waiting(wait time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "waiting for other requests of drover to the %s service", e.service)
	err.RetryAfter = wait
	return err
}
