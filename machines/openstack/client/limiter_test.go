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

// api is an endpoint that processes one request at a time. Each request takes the same time.
type api struct {
	mu    sync.Mutex
	takes time.Duration
	free  time.Time
}

func (e *api) serve() {
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

var (
	neutron = endpointKey{Network, "host"}
	posts   = requestKind{"POST", "ports"}
)

// busy returns each kind that has a request in flight or in a line.
func (l *limiter) busy() (kinds []requestKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.endpoints {
		for kind, of := range e.lines {
			if len(of.machines)+len(of.waiting)+of.called+of.inFlight > 0 {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// fleet holds a limiter, and the wake-ups that the limiter sends to the controller of the Machines.
type fleet struct {
	*limiter

	mu    sync.Mutex
	woken map[types.NamespacedName]chan struct{}
	// passes counts how often Machines asked the limiter whether they may send a request.
	passes int
}

func newFleet() *fleet {
	f := &fleet{woken: map[types.NamespacedName]chan struct{}{}}
	f.limiter = newLimiter(clock.RealClock{}, f.wake)
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
func (f *fleet) ask(by Caller) (*line, error) {
	f.mu.Lock()
	f.passes++
	f.mu.Unlock()
	return f.acquire(context.Background(), neutron, posts, by)
}

// through sends one request for a Machine. It asks the limiter again whenever the Machine is woken, until the request may be
// sent, and returns the time until the endpoint has answered.
func (f *fleet) through(e *api, by Caller) time.Duration {
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
		f.answered(r)
		return time.Since(began)
	}
}

// waits reports whether the error asks a Machine to wait for its turn.
func waits(err error) bool { return err != nil && fault.Of(err).Code == fault.CodeWaitingForTurn }

// fill sends requests until all of the limiter's slots are taken, and returns their line.
func (f *fleet) fill(t *testing.T) (l *line) {
	t.Helper()
	for n := range usualConcurrent {
		var err error
		if l, err = f.ask(member("g", fmt.Sprintf("first-%d", n))); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// wait asks for these Machines, all of which must wait for their turn.
func (f *fleet) wait(t *testing.T, all ...Caller) {
	t.Helper()
	for _, by := range all {
		if _, err := f.ask(by); !waits(err) || fault.Of(err).RetryAfter != askAgain {
			t.Fatalf("%s got %v", by.UID, err)
		}
	}
}

// answered ends a request with an answer that came too late to raise the limit above usualConcurrent.
func (f *fleet) answered(l *line) { f.release(l, result{answered: true, took: 2 * prompt}) }

func TestLimiterServesASmallAndALargeNodeGroupInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		e := &api{takes: 50 * time.Millisecond}
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
		if left := f.busy(); len(left) > 0 {
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
			time.AfterFunc(time.Second, func() { f.answered(first) })
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
			if _, err := f.acquire(ctx, neutron, posts, nobody); !fault.Is(err, fault.RateLimited) {
				t.Errorf("got %v", err)
			}
			f.answered(first)
			if _, err := f.ask(nobody); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestMachineThatWaitsForItsTurn(t *testing.T) {
	t.Run("the reconcile of a Machine that must wait ends at once, and the next free slot is reserved for that Machine (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, late := f.fill(t), member("g", "late")
			f.wait(t, late)
			time.Sleep(time.Second)
			f.answered(first)
			select {
			case <-f.wakeups(late.Key):
			default:
				t.Fatal("it was not woken")
			}
			f.wait(t, member("g", "later"))
			if _, err := f.ask(late); err != nil {
				t.Errorf("it was woken and got %v", err)
			}
		})
	})
	t.Run("a Machine keeps its place in the line however often it asks for a slot (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, a, b := f.fill(t), member("g", "a"), member("g", "b")
			f.wait(t, a, b, a, a, b, a)
			f.answered(first)
			f.wait(t, b)
			if _, err := f.ask(a); err != nil {
				t.Errorf("the first of the line got %v", err)
			}
		})
	})
	t.Run("a woken Machine that does not ask in time loses the slot, and is first in line when it asks again (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, slow, next := f.fill(t), member("g", "slow"), member("g", "next")
			f.wait(t, slow, next, member("g", "last"))
			f.answered(first)
			<-f.wakeups(slow.Key)
			began := time.Now()
			<-f.wakeups(next.Key)
			if waited := time.Since(began); waited != grace {
				t.Errorf("the slot was free for %s before the next Machine was woken", waited)
			}
			if _, err := f.ask(next); err != nil {
				t.Errorf("the next one got %v", err)
			}
			f.wait(t, slow)
			f.answered(first)
			if _, err := f.ask(slow); err != nil {
				t.Errorf("the late one got %v, although it is first in line", err)
			}
		})
	})
	t.Run("woken Machines that never ask again do not block the Machines of another group (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, last := f.fill(t), member("other", "last")
			for n := range 64 {
				f.wait(t, member("g", fmt.Sprintf("gone-%d", n)))
			}
			f.wait(t, last)
			f.answered(first)
			began := time.Now()
			<-f.wakeups(last.Key)
			if waited := time.Since(began); waited > grace {
				t.Errorf("64 Machines that do not come blocked another one for %s", waited)
			}
			if _, err := f.ask(last); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a Machine leaves the line when drover forgets it, for example because all its cloud resources are deleted (F-12, F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, next := f.fill(t), member("g", "next")
			f.wait(t, member("g", "called"), member("g", "waiting"), next)
			f.answered(first)
			f.forget("called")
			f.forget("waiting")
			l, err := f.ask(next)
			if err != nil {
				t.Fatalf("the slot is free, the only one in the line got %v", err)
			}
			for range usualConcurrent {
				f.answered(l)
			}
			time.Sleep(grace)
			if left := f.busy(); len(left) > 0 {
				t.Errorf("F-12: state is left: %v", left)
			}
		})
	})
	t.Run("a line that was not used for long is removed, although a woken Machine never came (F-12)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first := f.fill(t)
			f.wait(t, member("g", "gone"))
			for range usualConcurrent {
				f.answered(first)
			}
			time.Sleep(time.Minute)
			f.sweep(time.Now())
			if n := len(f.endpoints); n > 0 {
				t.Errorf("%d endpoints are left", n)
			}
		})
	})
}

func TestRetryAfterPausesAllRequestsToTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		first, parked := f.fill(t), member("g", "parked")
		f.wait(t, parked)
		f.release(first, result{answered: true, rest: 30 * time.Second})
		for range usualConcurrent - 1 {
			f.answered(first)
		}
		if _, err := f.acquire(t.Context(), neutron, requestKind{"GET", "networks"}, Caller{}); !fault.Is(err, fault.RateLimited) {
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

func TestRequestsAfterALongOutage(t *testing.T) {
	t.Run("after an hour of refusals with Retry-After a request is sent at once when the last pause is over (F-60)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			for range 120 {
				l, err := f.ask(member("g", "a"))
				if err != nil {
					t.Fatal(err)
				}
				f.release(l, result{rest: 30 * time.Second})
				time.Sleep(30 * time.Second)
			}
			if _, err := f.ask(member("g", "a")); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a thousand requests that got a slot and were not sent delay nobody (F-60)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			for range 1000 {
				l, err := f.ask(member("g", "a"))
				if err != nil {
					t.Fatal(err)
				}
				f.release(l, result{unsent: true})
			}
			f.fill(t)
		})
	})
}
