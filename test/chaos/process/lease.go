package process

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/test/chaos/schedule"
)

const (
	// LeaseLife is the time after the last renewal when another process may acquire the lease. leaseFresh is the
	// maximum age of the last renewal at a create or delete call. cmd/drover uses the same values.
	LeaseLife  = 15 * time.Second
	leaseFresh = LeaseLife / 2
	// leaseRetry is the interval between renewals of the lease.
	leaseRetry = 2 * time.Second
)

// StaleLeader makes a process lose its lease at the fault point instead of dying. The process no longer renews the
// lease and keeps running, and another process acquires the lease after LeaseLife.
type StaleLeader struct {
	// Pause is how long the process first stands still in the middle of its call. During the pause it sends and receives nothing.
	Pause time.Duration
}

// lease is the state of the lease as the process sees it.
type lease struct {
	mu sync.Mutex
	// renewed is when the process last renewed the lease, if it has lost the lease. It is zero while the process renews the
	// lease. resumed is when a paused process continues.
	renewed, resumed time.Time
}

// Fresh reports whether the last renewal is recent enough to create or delete something.
func (l *lease) Fresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.IsZero() || now.Sub(l.renewed) <= leaseFresh
}

// lose stops the renewals. ago is the age of the last renewal.
func (l *lease) lose(s *StaleLeader, ago time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed, l.resumed = time.Now().Add(-ago), time.Now().Add(s.Pause)
}

// ends returns the time at which another process may acquire the lease.
func (l *lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.Add(LeaseLife)
}

// wait blocks while the process is paused, and reports whether it was. It returns an error when ctx ends first.
func (l *lease) wait(ctx context.Context) (paused bool, err error) {
	l.mu.Lock()
	pause := time.Until(l.resumed)
	l.mu.Unlock()
	if pause > 0 && !schedule.Sleep(ctx, pause) {
		return true, ctx.Err()
	}
	return pause > 0, nil
}
