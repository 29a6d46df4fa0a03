package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

func TestMachineInTheQueueOfTheEndpointLimiter(t *testing.T) {
	t.Run("the reconcile of a Machine that must wait ends at once, and the next free slot is reserved for that Machine (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, late := f.fill(t), member("g", "late")
			if _, err := f.ask(late); !waits(err) || fault.Of(err).RetryAfter != askAgain {
				t.Fatalf("got %v", err)
			}
			time.Sleep(time.Second)
			f.release(first[0], result{answered: true})
			select {
			case <-f.wakeups(late.Key):
			default:
				t.Fatal("it was not woken")
			}
			if _, err := f.ask(member("g", "later")); !waits(err) {
				t.Errorf("a later Machine got the place: %v", err)
			}
			if _, err := f.ask(late); err != nil {
				t.Errorf("it was woken and got %v", err)
			}
		})
	})
	t.Run("a Machine keeps its position in the queue however often it asks for a slot (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, a, b := f.fill(t), member("g", "a"), member("g", "b")
			for _, by := range []Caller{a, b, a, a, b, a} {
				if _, err := f.ask(by); !waits(err) {
					t.Fatalf("got %v", err)
				}
			}
			f.release(first[0], result{answered: true})
			if _, err := f.ask(b); !waits(err) {
				t.Errorf("the second of the queue got %v", err)
			}
			if _, err := f.ask(a); err != nil {
				t.Errorf("the first of the queue got %v", err)
			}
		})
	})
	t.Run("a woken Machine that does not ask in time loses the slot, and is first in the queue when it asks again (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, slow, next := f.fill(t), member("g", "slow"), member("g", "next")
			for _, by := range []Caller{slow, next, member("g", "last")} {
				if _, err := f.ask(by); !waits(err) {
					t.Fatalf("got %v", err)
				}
			}
			f.release(first[0], result{answered: true})
			<-f.wakeups(slow.Key)
			began := time.Now()
			<-f.wakeups(next.Key)
			if waited := time.Since(began); waited != grace {
				t.Errorf("the place was free for %s before the next Machine was woken", waited)
			}
			if _, err := f.ask(next); err != nil {
				t.Errorf("the next one got %v", err)
			}
			if _, err := f.ask(slow); !waits(err) {
				t.Errorf("the late one got %v, and no place is free", err)
			}
			f.release(first[1], result{answered: true})
			if _, err := f.ask(slow); err != nil {
				t.Errorf("the late one got %v, and is the first in the queue", err)
			}
		})
	})
	t.Run("a woken Machine that never asks again does not block the other Machines (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, last := f.fill(t), member("other", "last")
			for n := range 64 {
				_, _ = f.ask(member("g", fmt.Sprintf("gone-%d", n)))
			}
			_, _ = f.ask(last)
			for _, r := range first {
				f.release(r, result{answered: true})
			}
			began := time.Now()
			<-f.wakeups(last.Key)
			if waited := time.Since(began); waited > 2*time.Second {
				t.Errorf("64 Machines that do not arrive blocked another one for %s", waited)
			}
			if _, err := f.ask(last); err != nil {
				t.Error(err)
			}
			time.Sleep(forgetAfter + time.Minute)
			if n := f.waiters(); n > 0 {
				t.Errorf("F-12: %d Machines are still registered", n)
			}
		})
	})
	t.Run("a Machine leaves the queue when drover forgets it, for example because all its cloud resources are deleted (F-56)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet()
			first, next := f.fill(t), member("g", "next")
			for _, by := range []Caller{member("g", "called"), member("g", "waiting"), next} {
				_, _ = f.ask(by)
			}
			f.release(first[0], result{answered: true})
			f.limits.forget("called")
			f.limits.forget("waiting")
			if _, err := f.ask(next); err != nil {
				t.Errorf("the place is free, the only one in the queue got %v", err)
			}
			if n := f.waiters(); n > 0 {
				t.Errorf("F-12: %d Machines are still registered", n)
			}
		})
	})
}
