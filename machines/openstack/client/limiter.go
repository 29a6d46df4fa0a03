package client

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
	lim "github.com/drover-project/drover/machines/openstack/limiter"
)

const (
	// mostConcurrent bounds the requests of one kind in flight at an endpoint, whatever the latency shows.
	mostConcurrent = 64
	// patience is how long a request that belongs to no Machine waits for its turn. It is short beside callTimeout, so that
	// the request has the time to be answered once it is sent.
	patience = 2 * time.Second
	// paceAhead is how long before its turn under an endpoint's pace a request may take up a worker.
	paceAhead = patience / 2
)

// limits holds one limiter per service and host.
type limits struct {
	clock clock.WithDelayedExecution
	// wake has the Machine reconciled.
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

// endpoint returns the limiter of an endpoint, which a request is sent to now.
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

// sweep drops the queues, and the limiters with what they have learned, that were last used before a time.
func (l *limits) sweep(before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.endpoints, func(_ endpointKey, e *endpointLimiter) bool {
		return e.sweep(before) == 0 && e.lastUsed.Before(before)
	})
}

// forget drops what a Machine still waits for.
func (l *limits) forget(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.endpoints {
		e.forget(machine)
	}
}

// endpointLimiter decides when a request is sent to one endpoint. Each kind of request has a queue and a concurrency of its
// own; all of them share the endpoint's pace and its rests.
type endpointLimiter struct {
	clock   clock.WithDelayedExecution
	wake    func(types.NamespacedName)
	service Service
	// lastUsed is when a request was last to be sent. It is guarded by the mutex of the limits.
	lastUsed time.Time

	mu     sync.Mutex
	rate   lim.Rate
	queues map[requestKind]*queue
}

// request is a request that may be sent once its turn under the endpoint's pace has come.
type request struct {
	turn time.Time
	// delayed: the turn was not at once.
	delayed bool
	// inFlight counts the requests of the kind in flight when it was let through, itself included.
	inFlight int
	sent     time.Time
}

// acquire returns when the request may be sent; release must follow. The error is RateLimited and names the time after
// which to ask again: with the code RateLimited while the endpoint rests, with WaitingForTurn when the request's turn has
// not come. A Machine is told so at once, keeps its place in the queue and is woken; other callers wait for patience.
func (e *endpointLimiter) acquire(ctx context.Context, kind requestKind, by caller) (*request, error) {
	e.mu.Lock()
	now := e.clock.Now()
	if left := e.rate.Paused(now); left > 0 {
		e.mu.Unlock()
		return nil, e.resting(left)
	}
	q := e.queue(kind)
	if by.machine.UID != "" {
		r := e.arrive(q, by, now)
		e.mu.Unlock()
		if r == nil {
			return nil, e.waiting(askAgain)
		}
		return e.untilTurn(ctx, q, r)
	}
	w := &waiter{caller: by, ready: make(chan struct{})}
	q.line.Push(by.group, w)
	e.admit(q, now)
	e.mu.Unlock()
	r, err := e.await(ctx, q, w)
	if err != nil {
		return nil, err
	}
	return e.untilTurn(ctx, q, r)
}

// await waits in line for at most patience.
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
	case q.line.Remove(w.group, w):
		return nil, e.waiting(patience)
	}
	return nil, e.resting(e.rate.Paused(e.clock.Now()))
}

// untilTurn waits for the request's turn under the endpoint's pace.
func (e *endpointLimiter) untilTurn(ctx context.Context, q *queue, r *request) (*request, error) {
	if wait := r.turn.Sub(e.clock.Now()); wait > 0 {
		timer := e.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			e.end(q, r, result{unsent: true})
			return nil, e.waiting(patience)
		}
	}
	e.mu.Lock()
	r.sent = e.clock.Now()
	left := e.rate.Paused(r.sent)
	e.mu.Unlock()
	if left > 0 {
		e.end(q, r, result{unsent: true})
		return nil, e.resting(left)
	}
	return r, nil
}

// result is how a request ended.
type result struct {
	// unsent: it was not sent after all.
	unsent bool
	// answered: the endpoint answered, and not that it is not available.
	answered bool
	// rest is how long the endpoint asked to be left alone.
	rest time.Duration
}

// release ends a request and learns from its result.
func (e *endpointLimiter) release(kind requestKind, r *request, how result) {
	e.mu.Lock()
	q := e.queue(kind)
	e.mu.Unlock()
	e.end(q, r, how)
}

func (e *endpointLimiter) end(q *queue, r *request, how result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	q.inFlight--
	switch {
	case how.unsent:
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
	e.admit(q, now)
}

func (e *endpointLimiter) resting(left time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeRateLimited, "the %s service asked to be left alone for %s", e.service, left.Round(time.Second))
	err.RetryAfter = left
	return err
}

func (e *endpointLimiter) waiting(wait time.Duration) error {
	err := fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "waiting for other requests of drover to the %s service", e.service)
	err.RetryAfter = wait
	return err
}
