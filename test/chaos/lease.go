package chaos

import (
	"context"
	"sync"
	"time"
)

const (
	// leaseLife is how long after its last renewal the lease may be another's, and leaseFresh how old that renewal may be
	// when something is made: what cmd/drover has.
	leaseLife  = 15 * time.Second
	leaseFresh = leaseLife / 2
	// leaseRetry is how often it is renewed.
	leaseRetry = 2 * time.Second
	// zombieLife is how long a process goes on that has lost its lease and does not know it.
	zombieLife = time.Minute
)

// zombie says that a process does not die at its point: nobody renews its lease any more, another process takes over in
// time, and this one goes on.
type zombie struct {
	// still is how long it stands still first, in the middle of its call: nothing leaves it, nothing reaches it.
	still time.Duration
}

// lease is what a process knows of its lease.
type lease struct {
	mu sync.Mutex
	// renewed is when it was renewed last; zero: just now. thaw is when the process moves again.
	renewed, thaw time.Time
}

// Fresh tells whether the lease was renewed lately.
func (l *lease) Fresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.IsZero() || now.Sub(l.renewed) <= leaseFresh
}

// lose ends the renewals; ago is how long the last one was before that.
func (l *lease) lose(z *zombie, ago time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed, l.thaw = time.Now().Add(-ago), time.Now().Add(z.still)
}

// ends is when another process may hold the lease.
func (l *lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.Add(leaseLife)
}

// move waits while the process stands still. Error: ctx ended first.
func (l *lease) move(ctx context.Context) error {
	l.mu.Lock()
	wait := time.Until(l.thaw)
	l.mu.Unlock()
	if wait > 0 && !sleep(ctx, wait) {
		return ctx.Err()
	}
	return nil
}
