package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

// endpoint is an API that processes one request at a time. Each request takes the same time.
type endpoint struct {
	mu    sync.Mutex
	takes time.Duration
	free  time.Time
}

func (e *endpoint) serve() {
	e.mu.Lock()
	now := time.Now()
	if e.free.Before(now) {
		e.free = now
	}
	e.free = e.free.Add(e.takes)
	wait := e.free.Sub(now)
	e.mu.Unlock()
	time.Sleep(wait)
}

var posts = requestKind{"POST", "ports"}

// busy returns each kind that has a request in flight or in a queue.
func (l *limits) busy() (kinds []requestKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.endpoints {
		e.mu.Lock()
		for kind, q := range e.queues {
			if len(q.parked)+len(q.called)+q.line.Len()+q.expected+q.inFlight > 0 {
				kinds = append(kinds, kind)
			}
		}
		e.mu.Unlock()
	}
	return kinds
}

// fleet holds the limiter of one endpoint, and the wake-ups that the limiter sends to the controller of the Machines.
type fleet struct {
	limits *limits
	*endpointLimiter

	mu    sync.Mutex
	woken map[types.NamespacedName]chan struct{}
	// passes counts how often Machines asked the limiter whether they may send a request.
	passes int
}

func newFleet() *fleet {
	f := &fleet{woken: map[types.NamespacedName]chan struct{}{}}
	f.limits = newLimits(clock.RealClock{}, f.wake)
	f.endpointLimiter = f.limits.endpoint(Network, "host")
	return f
}

// wakeups returns the channel that receives a value when the limiter wakes the Machine.
func (f *fleet) wakeups(key types.NamespacedName) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.woken[key] == nil {
		f.woken[key] = make(chan struct{}, 1)
	}
	return f.woken[key]
}

func (f *fleet) wake(key types.NamespacedName) {
	select {
	case f.wakeups(key) <- struct{}{}:
	default:
	}
}

// member returns a Machine of a node group as the caller of a request.
func member(group, name string) Caller {
	return Caller{Group: group, UID: types.UID(name), Key: types.NamespacedName{Name: name}}
}

// ask asks the limiter once whether the caller may send a request.
func (f *fleet) ask(by Caller) (*request, error) {
	f.mu.Lock()
	f.passes++
	f.mu.Unlock()
	return f.acquire(context.Background(), posts, by)
}

// through sends one request for a Machine. It asks the limiter again whenever the Machine is woken, until the request may be
// sent, and returns the time until the endpoint has answered.
func (f *fleet) through(e *endpoint, by Caller) time.Duration {
	began := time.Now()
	for {
		r, err := f.ask(by)
		if err != nil {
			select {
			case <-f.wakeups(by.Key):
			case <-time.After(fault.Of(err).RetryAfter):
			}
			continue
		}
		e.serve()
		f.release(r, result{answered: true})
		return time.Since(began)
	}
}

// waiters returns the number of entries that the queue holds for Machines that wait or were woken.
func (f *fleet) waiters() int {
	f.endpointLimiter.mu.Lock()
	defer f.endpointLimiter.mu.Unlock()
	q := f.queues[posts]
	return len(q.parked) + len(q.called) + q.expected
}

// waits reports whether the error asks a Machine to wait for its turn.
func waits(err error) bool { return err != nil && fault.Of(err).Code == fault.CodeWaitingForTurn }

// fill sends requests until all of the limiter's slots are taken, and returns the requests.
func (f *fleet) fill(t *testing.T) []*request {
	t.Helper()
	var all []*request
	for n := range 4 {
		r, err := f.ask(member("g", fmt.Sprintf("first-%d", n)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestLimiterServesASmallAndALargeNodeGroupInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		e := &endpoint{takes: 50 * time.Millisecond}
		var wg sync.WaitGroup
		for n := range 300 {
			wg.Go(func() { f.through(e, member("many", fmt.Sprintf("many-%d", n))) })
		}
		time.Sleep(2 * time.Second)
		const few = 10
		var mu sync.Mutex
		var longest time.Duration
		for n := range few {
			wg.Go(func() {
				took := f.through(e, member("few", fmt.Sprintf("few-%d", n)))
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, took)
			})
		}
		began := time.Now()
		wg.Wait()
		share := 2 * few * e.takes
		if longest > 2*share {
			t.Errorf("CAPI-24: the small group waited %s, its share takes %s", longest, share)
		}
		if took, floor := time.Since(began), 270*e.takes; took > floor*12/10 {
			t.Errorf("all took %s, the endpoint needs %s", took, floor)
		}
		if left := f.limits.busy(); len(left) > 0 {
			t.Errorf("state is left after all requests: %v", left)
		}
		if f.passes > 2*310+10 {
			t.Errorf("%d reconciles for 310 Machines, want two for each", f.passes)
		}
	})
}

func TestRequestThatIsNotForAMachine(t *testing.T) {
	nobody := Caller{Group: "g"}
	t.Run("the request waits until the endpoint limiter has a free slot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first := f.fill(t)
			time.AfterFunc(time.Second, func() { f.release(first[0], result{answered: true}) })
			if _, err := f.ask(nobody); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("the request fails when the endpoint limiter has no free slot in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			f.fill(t)
			began := time.Now()
			if _, err := f.ask(nobody); !waits(err) || fault.Of(err).RetryAfter != patience || time.Since(began) != patience {
				t.Errorf("got %v after %s", err, time.Since(began))
			}
		})
	})
	t.Run("the request leaves the queue of the endpoint limiter when it is cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first := f.fill(t)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := f.acquire(ctx, posts, nobody); !fault.Is(err, fault.RateLimited) {
				t.Errorf("got %v", err)
			}
			f.release(first[0], result{answered: true})
			if _, err := f.ask(nobody); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestRetryAfterPausesAllRequestsToTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		first, parked := f.fill(t), member("g", "parked")
		refused := make(chan error, 3)
		for range cap(refused) {
			go func() {
				_, err := f.ask(Caller{Group: "g"})
				refused <- err
			}()
		}
		if _, err := f.ask(parked); !waits(err) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		f.release(first[0], result{answered: true, rest: 30 * time.Second})
		for range cap(refused) {
			if e := fault.Of(<-refused); e == nil || e.RetryAfter != 30*time.Second {
				t.Errorf("CAPI-16: got %+v", e)
			}
		}
		if _, err := f.acquire(t.Context(), requestKind{"GET", "networks"}, Caller{}); !fault.Is(err, fault.RateLimited) {
			t.Errorf("CAPI-16: another kind of request to the endpoint got %v", err)
		}
		if _, err := f.ask(parked); !fault.Is(err, fault.RateLimited) || waits(err) {
			t.Errorf("CAPI-16: a Machine that waits for its turn got %v", err)
		}
		began := time.Now()
		<-f.wakeups(parked.Key)
		if slept := time.Since(began); slept != 30*time.Second {
			t.Errorf("the parked Machine was woken after %s", slept)
		}
		if _, err := f.ask(parked); err != nil {
			t.Errorf("after the rest: %v", err)
		}
	})
}
