package client

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// grace is how long a slot is reserved for a Machine that was woken. The Machine's reconcile begins within milliseconds unless
	// all workers are busy.
	grace = 250 * time.Millisecond
	// mostMissed is the highest count of woken Machines in a row that did not retry in time (queue.missed). It limits how many
	// Machines are woken for one slot.
	mostMissed = 6
	// askAgain is the time after which a waiting Machine retries even if it has not been woken. It keeps its position in the queue.
	askAgain = 30 * time.Second
	// forgetAfter is the time after which a woken Machine that did not retry is removed from the queue, because it does not need
	// the request any more.
	forgetAfter = 2 * askAgain
)

// queue holds the requests of one kind at one endpoint: those in flight, and those that wait for their turn. Its fields are guarded
// by endpointLimiter.mu.
//
// A Machine occupies no worker while it waits. When its turn comes, the queue wakes the Machine and reserves a slot for it for the
// grace period. If the Machine does not retry its request within that period, the queue wakes the next Machine too, and the first
// woken Machine that retries gets the slot. So the endpoint is never idle for longer than the grace period while requests wait. A
// Machine that does not retry, for example because it is being deleted, does not block the others.
type queue struct {
	// lastUsed is the last time at which a request of the kind was about to be sent, or ended.
	lastUsed    time.Time
	concurrency *Concurrency
	inFlight    int
	line        FairQueue[*waiter]
	// parked holds, by UID, the Machines that wait for their turn, and the Machines that were woken and have not retried yet.
	parked map[types.UID]*waiter
	// called holds the Machines that were woken and have not retried yet, in the order in which they were woken. expected is the
	// number of these Machines whose grace period has not ended.
	called   []*waiter
	expected int
	// missed counts how often in a row a Machine was woken for its turn and sent no request within the grace period, up to
	// mostMissed.
	missed int
	// timer calls the method tick at the time due. due is zero when there is nothing to do later.
	timer clock.Timer
	due   time.Time
}

// waiter is a request that waits for its turn. Its caller either blocks in a goroutine, or is a Machine. The reconcile of a Machine
// ends without the request. When the request's turn comes, the queue wakes the Machine: it has the Machine reconciled again.
type waiter struct {
	Caller
	// ready is closed when the request may be sent (request is then set), or when the endpoint is paused. It is nil for a Machine,
	// which is woken instead.
	ready   chan struct{}
	request *request
	// calledAt is when the Machine was woken; zero while it waits for its turn. late is true when its grace period has ended.
	calledAt time.Time
	late     bool
}

func (w *waiter) called() bool { return !w.calledAt.IsZero() }

// queue returns the queue of a kind of request. The caller must hold mu, as for all methods below.
func (e *endpointLimiter) queue(kind requestKind) *queue {
	q, ok := e.queues[kind]
	if !ok {
		q = &queue{concurrency: NewConcurrency(mostConcurrent), parked: map[types.UID]*waiter{}}
		e.queues[kind] = q
	}
	q.lastUsed = e.clock.Now()
	return q
}

// sweep removes the empty queues that were last used before the given time, and returns the number of queues left. Unlike the other
// methods it acquires mu itself.
func (e *endpointLimiter) sweep(before time.Time) (left int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.queues, func(_ requestKind, q *queue) bool {
		return q.inFlight == 0 && q.line.Len() == 0 && len(q.parked) == 0 && q.lastUsed.Before(before)
	})
	return len(e.queues)
}

// arrive returns the request that a Machine may send now. When the Machine must wait, arrive adds it to the waiting Machines and
// returns nil.
func (e *endpointLimiter) arrive(q *queue, by Caller, now time.Time) *request {
	w := q.parked[by.UID]
	called, free := w != nil && w.called(), false
	switch {
	case called || q.missed > 0:
		// Woken Machines do not retry in time when the workers are busy. Then any Machine that sends a request gets the slot.
		free = e.fits(q, q.inFlight, 0, now)
	case w == nil && q.line.Len() == 0:
		free = e.fits(q, q.inFlight+q.expected, q.expected, now)
	}
	if free {
		if called && !w.late {
			q.missed = 0
		}
		q.drop(w)
		r := e.begin(q, now)
		e.fill(q, now)
		return r
	}
	switch {
	case w == nil:
		w = &waiter{Caller: by}
		q.parked[by.UID] = w
		q.line.Push(w.Group, w)
	case called:
		q.uncall(w)
		q.line.PushFront(w.Group, w)
	}
	e.fill(q, now)
	return nil
}

// fits reports whether one more request may be sent: the concurrency limit must allow it, and its turn under the endpoint's rate
// limit must come soon. inFlight is the number of requests in flight, and others the number of requests that are about to be sent.
func (e *endpointLimiter) fits(q *queue, inFlight, others int, now time.Time) bool {
	return inFlight < q.concurrency.Limit() && (inFlight == 0 || e.rate.Ahead(now, others) <= paceAhead)
}

// occupied returns the number of slots that are taken or reserved. When several woken Machines in a row did not retry within the
// grace period, it counts several reservations as one, so that more Machines are woken for one slot: 1, 1, 2, 4 and so on.
func (q *queue) occupied() int { return q.inFlight + q.expected>>max(q.missed-1, 0) }

// fill assigns free slots to waiters, in the order of the queue: a waiting goroutine may send its request, and a waiting Machine is
// woken.
func (e *endpointLimiter) fill(q *queue, now time.Time) {
	for e.rate.Paused(now) == 0 && e.fits(q, q.occupied(), q.expected, now) {
		w, ok := q.line.Pop()
		if !ok {
			break
		}
		if w.ready != nil {
			w.request = e.begin(q, now)
			close(w.ready)
			continue
		}
		w.calledAt = now
		q.called = append(q.called, w)
		q.expected++
		e.wake(w.Key)
	}
	e.schedule(q, now)
}

// begin takes one of the queue's slots for requests in flight, and reserves a turn under the endpoint's rate limit.
func (e *endpointLimiter) begin(q *queue, now time.Time) *request {
	q.inFlight++
	turn := e.rate.Reserve(now)
	return &request{queue: q, turn: turn, delayed: turn.After(now), inFlight: q.inFlight}
}

// schedule sets the timer to the next time at which tick has something to do, for example at the end of a grace period or of a
// pause.
func (e *endpointLimiter) schedule(q *queue, now time.Time) {
	var due time.Time
	soonest := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	for _, w := range q.called {
		if w.late {
			soonest(w.calledAt.Add(forgetAfter))
		} else {
			soonest(w.calledAt.Add(grace))
		}
	}
	if rest := e.rate.Paused(now); q.line.Len() > 0 && rest > 0 {
		soonest(now.Add(rest))
	} else if q.line.Len() > 0 && q.occupied() < q.concurrency.Limit() {
		soonest(now.Add(max(e.rate.Ahead(now, q.expected)-paceAhead, time.Millisecond)))
	}
	if due.Equal(q.due) {
		return
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	q.due = due
	if !due.IsZero() {
		// Run tick in its own goroutine, because a simulated clock calls this function with its lock held.
		q.timer = e.clock.AfterFunc(due.Sub(now), func() { go e.tick(q) })
	}
}

// tick ends the grace period of woken Machines that did not retry within it, removes woken Machines that did not retry within
// forgetAfter, and fills the free slots.
func (e *endpointLimiter) tick(q *queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	q.due = time.Time{}
	missed := 0
	for _, w := range slices.Clone(q.called) {
		switch age := now.Sub(w.calledAt); {
		case age >= forgetAfter:
			q.drop(w)
		case age >= grace && !w.late:
			w.late, missed = true, 1
			q.expected--
		}
	}
	q.missed = min(q.missed+missed, mostMissed)
	e.fill(q, now)
}

// interrupt prepares the queue for a pause of the endpoint that has just begun. A request whose caller blocks in a goroutine fails
// at once. A Machine stays in the queue and is woken after the pause. Machines that were woken already, but have not retried yet,
// become the first of their groups.
func (e *endpointLimiter) interrupt(q *queue, now time.Time) {
	var machines []*waiter
	for w, ok := q.line.Pop(); ok; w, ok = q.line.Pop() {
		if w.ready != nil {
			close(w.ready)
		} else {
			machines = append(machines, w)
		}
	}
	for _, w := range append(slices.Clone(q.called), machines...) {
		q.uncall(w)
		q.line.Push(w.Group, w)
	}
	q.missed = 0
	e.schedule(q, now)
}

// forget removes the waiting request of a Machine.
func (e *endpointLimiter) forget(machine types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		if w := q.parked[machine]; w != nil {
			q.drop(w)
			e.fill(q, e.clock.Now())
		}
	}
}

// drop removes the waiting request of a Machine from the queue. It does nothing when w is nil, that is, when no request of the
// Machine waits.
func (q *queue) drop(w *waiter) {
	if w == nil {
		return
	}
	delete(q.parked, w.UID)
	q.uncall(w)
	q.line.Remove(w.Group, w)
	if len(q.parked) == 0 {
		q.missed = 0
	}
}

// uncall removes a waiter from the list of woken Machines, so that it counts as not woken. It does nothing for a waiter that was
// not woken.
func (q *queue) uncall(w *waiter) {
	if !w.called() {
		return
	}
	q.called = slices.DeleteFunc(q.called, func(c *waiter) bool { return c == w })
	if !w.late {
		q.expected--
	}
	w.calledAt, w.late = time.Time{}, false
}
