// Package schedule releases the calls of a run one at a time, in an order that depends only on the names of the calls
// and on the seed. It must not depend on the services that are called.
package schedule

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// longestTravel is the upper bound of the time between a call's release and its arrival. Each call takes a different time, so that no two
// events happen at the same instant, because their order would be undefined.
const longestTravel = time.Millisecond

// Scheduler orders calls: when every goroutine of the synctest bubble is idle, it picks one of the waiting calls at random and
// releases it.
type Scheduler struct {
	random *rand.Rand
	bell   chan struct{}

	mu      sync.Mutex
	waiting []*turn
}

type turn struct {
	name string
	// detail distinguishes calls of the same name. It is called only when two of them wait.
	detail func() string
	leave  chan struct{}
	travel time.Duration
}

// New returns a Scheduler that uses random. It releases calls only while Run is running.
func New(random *rand.Rand) *Scheduler {
	return &Scheduler{random: random, bell: make(chan struct{}, 1)}
}

// Await blocks until the scheduler releases the call with that name. detail distinguishes calls of the same name. Await returns an error
// when ctx ends first.
func (s *Scheduler) Await(ctx context.Context, name string, detail func() string) error {
	own := &turn{name: name, detail: sync.OnceValue(detail), leave: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, own)
	s.mu.Unlock()
	s.ring()
	select {
	case <-own.leave:
		if !Sleep(ctx, own.travel) {
			return ctx.Err()
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = slices.DeleteFunc(s.waiting, func(w *turn) bool { return w == own })
		return ctx.Err()
	}
}

func (s *Scheduler) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Run releases calls until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.bell:
		}
		synctest.Wait()
		if s.next() {
			s.ring()
		}
	}
}

// next releases one call, and reports whether more are waiting.
func (s *Scheduler) next() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return false
	}
	slices.SortStableFunc(s.waiting, compare)
	i := s.random.IntN(len(s.waiting))
	s.waiting[i].travel = time.Duration(1+s.random.IntN(int(longestTravel))) * time.Nanosecond
	close(s.waiting[i].leave)
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return len(s.waiting) > 0
}

func compare(a, b *turn) int {
	if by := cmp.Compare(a.name, b.name); by != 0 {
		return by
	}
	return cmp.Compare(a.detail(), b.detail())
}

// Alone is the detail of calls when only one call of the name can wait at a time.
func Alone() string { return "" }

// Sleep blocks for d. It returns false when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
