package client

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	lim "github.com/drover-project/drover/machines/openstack/limiter"
)

const (
	// grace is how long a place is kept for a Machine that was woken. A pass begins within milliseconds unless all workers
	// are busy.
	grace = 250 * time.Millisecond
	// mostMissed bounds the missed calls in a row that count, and so how many Machines are called for one place.
	mostMissed = 6
	// askAgain is when a Machine asks again that was not woken. It is woken unless drover has a bug.
	askAgain = 30 * time.Second
	// forgetAfter is when a Machine that was woken and has not come is forgotten: it does not want the request any more.
	forgetAfter = 2 * askAgain
)

// queue holds the requests of one kind at one endpoint: those in flight, and those that wait for their turn. Its fields are
// guarded by the mutex of the endpointLimiter.
//
// A Machine does not occupy a worker while it waits: it is parked. When its turn comes it is called, which wakes it, and a
// place is kept for it for the time of grace. After that the next one is called too, and the first of them to arrive gets
// the place. So the endpoint never idles for longer than that while anybody wants to send something, and a Machine that
// does not come, being deleted by now, does not hold up the others.
type queue struct {
	// lastUsed is when a request of the kind was last to be sent, or has ended.
	lastUsed    time.Time
	concurrency *lim.Concurrency
	inFlight    int
	line        lim.FairQueue[*waiter]
	// parked holds the Machines in line and those that were called, by UID.
	parked map[types.UID]*waiter
	// called holds the waiters that were called and have not arrived, in the order of the calls; expected counts those
	// within their time of grace.
	called   []*waiter
	expected int
	// missed counts the times of grace in a row that ended before the Machine arrived.
	missed int
	// timer runs tick at the time due. Zero: time alone changes nothing.
	timer clock.Timer
	due   time.Time
}

// waiter is a request that waits for its turn.
type waiter struct {
	caller
	// ready is closed once request is set, or when the endpoint rests. nil for a parked Machine.
	ready   chan struct{}
	request *request
	// calledAt is when the Machine was called; zero while it is in line. late: its time of grace is over.
	calledAt time.Time
	late     bool
}

func (w *waiter) called() bool { return !w.calledAt.IsZero() }

// queue returns the queue of a kind of request. The caller holds the lock, as for all that follow.
func (e *endpointLimiter) queue(kind requestKind) *queue {
	q, ok := e.queues[kind]
	if !ok {
		q = &queue{concurrency: lim.NewConcurrency(mostConcurrent), parked: map[types.UID]*waiter{}}
		e.queues[kind] = q
	}
	q.lastUsed = e.clock.Now()
	return q
}

// sweep drops the queues that were last used before a time and hold nothing. It returns how many are left. Unlike the others it
// takes the lock itself.
func (e *endpointLimiter) sweep(before time.Time) (left int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.queues, func(_ requestKind, q *queue) bool {
		return q.inFlight == 0 && q.line.Len() == 0 && len(q.parked) == 0 && q.lastUsed.Before(before)
	})
	return len(e.queues)
}

// arrive returns the request that a Machine may send now; nil when it has to wait, which parks it.
func (e *endpointLimiter) arrive(q *queue, by caller, now time.Time) *request {
	w := q.parked[by.machine.UID]
	called, free := w != nil && w.called(), false
	switch {
	case called || q.missed > 0:
		// While Machines that were called do not come, because the workers are busy, the place is for the one that is here.
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
		e.admit(q, now)
		return r
	}
	switch {
	case w == nil:
		w = &waiter{caller: by}
		q.parked[by.machine.UID] = w
		q.line.Push(w.group, w)
	case called:
		q.uncall(w)
		q.line.PushFront(w.group, w)
	}
	e.admit(q, now)
	return nil
}

// fits reports whether one more request fits beside those in flight, with so many others that are about to be sent: the
// concurrency has a place, and the turn under the endpoint's pace comes soon.
func (e *endpointLimiter) fits(q *queue, inFlight, others int, now time.Time) bool {
	return inFlight < q.concurrency.Limit() && (inFlight == 0 || e.rate.Ahead(now, others) <= paceAhead)
}

// occupied counts the places that are taken or kept. The more calls in a row were missed, the more Machines are called for
// one place: 1, 1, 2, 4 and so on.
func (q *queue) occupied() int { return q.inFlight + q.expected>>max(q.missed-1, 0) }

// admit lets requests through, and calls Machines, as long as there are places.
func (e *endpointLimiter) admit(q *queue, now time.Time) {
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
		e.wake(w.machine.Key)
	}
	e.schedule(q, now)
}

// begin takes a place and a turn under the endpoint's pace.
func (e *endpointLimiter) begin(q *queue, now time.Time) *request {
	q.inFlight++
	turn := e.rate.Reserve(now)
	return &request{turn: turn, delayed: turn.After(now), inFlight: q.inFlight}
}

// schedule sets the timer to the next moment at which time alone changes something.
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
		// In a goroutine of its own: a simulated clock calls this with its lock held.
		q.timer = e.clock.AfterFunc(due.Sub(now), func() { go e.tick(q) })
	}
}

// tick does what is due: it ends times of grace, and forgets Machines that do not come.
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
	e.admit(q, now)
}

// interrupt begins a rest of the endpoint: requests that wait by themselves are told so, Machines wait for its end.
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
		q.line.Push(w.group, w)
	}
	q.missed = 0
	e.schedule(q, now)
}

// forget drops what a Machine waits for.
func (e *endpointLimiter) forget(machine types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		if w := q.parked[machine]; w != nil {
			q.drop(w)
			e.admit(q, e.clock.Now())
		}
	}
}

// drop ends a Machine's wait. nil: it does not wait.
func (q *queue) drop(w *waiter) {
	if w == nil {
		return
	}
	delete(q.parked, w.machine.UID)
	if w.called() {
		q.uncall(w)
	} else {
		q.line.Remove(w.group, w)
	}
	if len(q.parked) == 0 {
		q.missed = 0
	}
}

// uncall takes back a call, if there was one.
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
