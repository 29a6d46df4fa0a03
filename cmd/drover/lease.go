package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/handover"
)

const (
	// leaseName is the name of the lease that drover must hold to run controllers, call the cloud and approve certificates.
	leaseName = "drover"
	// leaseLife is the time after the last renewal from which another replica may take the lease. The leader tries to
	// renew the lease every leaseRetry, and ends when it could not renew the lease for leaseDeadline.
	leaseLife     = 15 * time.Second
	leaseDeadline = 10 * time.Second
	leaseRetry    = 2 * time.Second
	// leaseFresh is how old the last renewal may be when drover creates something in the cloud. The rest of leaseLife is for
	// the call: a request may wait for a few seconds before it is sent.
	leaseFresh = leaseLife / 2
)

// lease is the lock of the leader election, and records when the lease was last renewed. A process that was suspended (a paused
// virtual machine, a node that swaps) continues where it stopped, and learns only seconds later that another replica leads. Before
// that, and without a call, the age of the last renewal already shows that another replica may lead.
type lease struct {
	resourcelock.Interface
	clock clock.PassiveClock
	// standby reports that drover waits for machine-controller's lease. It is nil when drover does not take that lease.
	standby *handover.Standby

	// renewed is when the last successful renewal was sent. It is nil while this process does not hold the lease.
	renewed atomic.Pointer[time.Time]
}

// newLease returns the lock of the leader election. With the flag for machine-controller's lease, the lock also holds that
// lease. newLease returns nil without leader election.
func newLease(config *rest.Config, o *options) (*lease, error) {
	if o.has(noLeaderElection) || o.observe {
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

// waiting returns the Standby that reports while drover waits for machine-controller's lease. It returns nil when drover does
// not take that lease.
func (l *lease) waiting() *handover.Standby {
	if l == nil {
		return nil
	}
	return l.standby
}

// Get reads the lease. When another process holds the lease, this process no longer counts as its holder, even if it has renewed
// the lease recently: a user may have deleted the lease, and then other replicas do not wait until leaseLife has passed.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.renewed.Store(nil)
	}
	return record, raw, err
}

// Create creates the lease with this process as its holder.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := l.clock.Now()
	return l.note(record, sent, l.Interface.Create(ctx, record))
}

// Update takes, renews or releases the lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.renewed.Store(nil)
	}
	sent := l.clock.Now()
	return l.note(record, sent, l.Interface.Update(ctx, record))
}

// note records a renewal. A failed renewal leaves the time of the last renewal unchanged.
func (l *lease) note(record resourcelock.LeaderElectionRecord, sent time.Time, err error) error {
	if err == nil && record.HolderIdentity == l.Identity() {
		l.renewed.Store(&sent)
	}
	return err
}

// Fresh reports whether the lease was renewed so recently that a call that begins now ends before another replica may take the
// lease. Without leader election it returns true. Time that passes while the process is suspended also counts; only the wall
// clock shows that time.
func (l *lease) Fresh(now time.Time) bool {
	if l == nil {
		return true
	}
	renewed := l.renewed.Load()
	return renewed != nil && max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0))) <= leaseFresh
}
