package set

import (
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// Lease reports whether this process may still be the only one that acts.
type Lease interface {
	// Fresh reports whether it was renewed lately. It makes no call itself.
	Fresh(now time.Time) bool
}

// retryLease is how soon to look at the lease again: it is renewed every few seconds.
const retryLease = time.Second

// errLeaseOld ends a reconcile during which the lease has become too old.
var errLeaseOld = errors.New("the lease was not renewed in time")

// leaseCheck is a lease with its clock. A nil lease is always fresh.
type leaseCheck struct {
	lease Lease
	clock clock.PassiveClock
}

func (l leaseCheck) old() bool { return l.lease != nil && !l.lease.Fresh(l.clock.Now()) }
