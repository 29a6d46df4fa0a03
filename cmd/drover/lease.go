package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/handover"
)

const (
	// leaseName is the lease that controllers, cloud calls and approvals need.
	leaseName = "drover"
	// leaseLife is how long after its last renewal another replica may take the lease; a leader that cannot renew it for
	// leaseDeadline ends by itself, and it tries every leaseRetry.
	leaseLife     = 15 * time.Second
	leaseDeadline = 10 * time.Second
	leaseRetry    = 2 * time.Second
	// leaseFresh is how old the last renewal may be when something is made in the cloud. The rest of its life is for the
	// call: a request may stand in line for a few seconds before it is sent.
	leaseFresh = leaseLife / 2
)

// lease is the lock of the leader election, and remembers when it was last renewed. A process that was stopped for a while
// (a paused virtual machine, a node that swaps) goes on where it was, and learns only seconds later that another one leads
// by now: the age of its last renewal tells at once, and costs no call.
type lease struct {
	resourcelock.Interface
	clock clock.PassiveClock
	// standby reports that machine-controller's lease is waited for; nil when that is not taken.
	standby *handover.Standby

	mu sync.Mutex
	// renewed is when the last renewal that worked was sent; zero: the lease is not held.
	renewed time.Time
	// before is when another holder renewed the lease last, as far as this process has read; zero: it has read of none. since is
	// when this process took it; zero: it has not.
	before, since time.Time
}

// newLease makes the lock, which holds machine-controller's lease too; nil when there is no leader election.
func newLease(config *rest.Config, o *options) (*lease, error) {
	if !o.leader || o.observe {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming the holder of the lease: %w", err)
	}
	holder := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.namespace, leaseName, holder, config, leaseDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lock of lease %s/%s: %w", o.namespace, leaseName, err)
	}
	joined, standby, err := o.handover.withOther(config, lock, o.namespace, leaseDeadline)
	if err != nil {
		return nil, err
	}
	return &lease{Interface: joined, clock: clock.RealClock{}, standby: standby}, nil
}

// waiting returns what reports that machine-controller's lease is waited for; nil when that is not taken.
func (l *lease) waiting() *handover.Standby {
	if l == nil {
		return nil
	}
	return l.standby
}

// Get reads the lease. One that another process holds is not ours, however young our last renewal: somebody may have deleted
// it by hand, and then nobody waits for the end of its life.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.drop()
		l.readOther(record.RenewTime.Time)
	}
	return record, raw, err
}

// readOther notes when another holder renewed the lease, until this process takes it.
func (l *lease) readOther(renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.before = renewed
	}
}

// Leading returns when another process renewed the lease last before this one took it, zero when there was none, and when this one
// took it; both are zero without leader election.
func (l *lease) Leading() (before, since time.Time) {
	if l == nil {
		return before, since
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.before, l.since
}

// Create makes the lease with this process as its holder.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := l.clock.Now()
	return l.note(record, sent, l.Interface.Create(ctx, record))
}

// Update takes the lease, renews it, or gives it back.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.drop()
	}
	sent := l.clock.Now()
	return l.note(record, sent, l.Interface.Update(ctx, record))
}

// note remembers a renewal. One that failed changes nothing: the one before goes on ageing.
func (l *lease) note(record resourcelock.LeaderElectionRecord, sent time.Time, err error) error {
	if err == nil && record.HolderIdentity == l.Identity() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = sent
		if l.since.IsZero() {
			l.since = sent
		}
	}
	return err
}

func (l *lease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Time{}
}

// Fresh tells whether the lease was renewed so lately that a call that begins now ends before another replica may take it.
// Without leader election it always was. Time that only the calendar shows, since the machine stood still, counts too.
func (l *lease) Fresh(now time.Time) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	age := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	return !l.renewed.IsZero() && age <= leaseFresh
}
