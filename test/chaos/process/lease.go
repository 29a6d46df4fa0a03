package process

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/test/chaos/schedule"
)

const (
	// LeaseLife is how long after its last renewal another process may take the lease; leaseFresh is how old the renewal may be
	// when something is made. Both are what cmd/drover has.
	LeaseLife  = 15 * time.Second
	leaseFresh = LeaseLife / 2
	// leaseRetry is how often the lease is renewed.
	leaseRetry = 2 * time.Second
)

// StaleLeader says that a process does not die at its fault point: its lease is not renewed any more, another process takes over
// in time, and this one goes on.
type StaleLeader struct {
	// Pause is how long it stands still first, in the middle of its call: nothing leaves it, nothing reaches it.
	Pause time.Duration
}

// lease is what a process knows of its lease.
type lease struct {
	mu sync.Mutex
	// renewed is when it was renewed last; zero: just now. resumed is when the process goes on.
	renewed, resumed time.Time
}

// Fresh reports whether the lease was renewed lately.
func (l *lease) Fresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.IsZero() || now.Sub(l.renewed) <= leaseFresh
}

// lose ends the renewals; ago is how long ago the last one was.
func (l *lease) lose(s *StaleLeader, ago time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed, l.resumed = time.Now().Add(-ago), time.Now().Add(s.Pause)
}

// last returns when the lease was renewed last.
func (l *lease) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		return time.Now()
	}
	return l.renewed
}

// ends returns when another process may hold the lease.
func (l *lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.Add(LeaseLife)
}

// wait waits while the process stands still. It returns an error when ctx ends first.
func (l *lease) wait(ctx context.Context) error {
	l.mu.Lock()
	pause := time.Until(l.resumed)
	l.mu.Unlock()
	if pause > 0 && !schedule.Sleep(ctx, pause) {
		return ctx.Err()
	}
	return nil
}
