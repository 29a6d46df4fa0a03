package chaos

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// turns lets one call at a time through, in an order that depends on the calls and the seed alone: a call that comes in
// waits until everything else in the bubble is at rest, and then one of those that wait is drawn.
type turns struct {
	random *rand.Rand
	bell   chan struct{}

	mu      sync.Mutex
	waiting []*turn
}

// longestTravel bounds how long a call is under way once its turn has come. Each takes a time of its own, so that no two
// things fall on the same instant, where it would be open which comes first.
const longestTravel = time.Millisecond

type turn struct {
	name string
	// detail tells calls of one name apart; it is asked for only where there are two.
	detail func() string
	leave  chan struct{}
	travel time.Duration
}

func newTurns(random *rand.Rand) *turns {
	return &turns{random: random, bell: make(chan struct{}, 1)}
}

// await waits for the turn of a call of that name. Error: ctx ended first.
func (t *turns) await(ctx context.Context, name string, detail func() string) error {
	own := &turn{name: name, detail: sync.OnceValue(detail), leave: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	t.mu.Unlock()
	t.ring()
	select {
	case <-own.leave:
		if !sleep(ctx, own.travel) {
			return ctx.Err()
		}
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = slices.DeleteFunc(t.waiting, func(w *turn) bool { return w == own })
		return ctx.Err()
	}
}

func (t *turns) ring() {
	select {
	case t.bell <- struct{}{}:
	default:
	}
}

// run gives turns until ctx ends.
func (t *turns) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.bell:
		}
		synctest.Wait()
		if t.next() {
			t.ring()
		}
	}
}

// next lets one call go; true when more are waiting.
func (t *turns) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return false
	}
	slices.SortStableFunc(t.waiting, compareTurns)
	i := t.random.IntN(len(t.waiting))
	t.waiting[i].travel = time.Duration(1+t.random.IntN(int(longestTravel))) * time.Nanosecond
	close(t.waiting[i].leave)
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return len(t.waiting) > 0
}

func compareTurns(a, b *turn) int {
	if by := cmp.Compare(a.name, b.name); by != 0 {
		return by
	}
	return cmp.Compare(a.detail(), b.detail())
}

// no detail is needed where only one call of a name can wait.
func alone() string { return "" }
