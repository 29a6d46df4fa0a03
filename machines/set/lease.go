package set

import (
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// Lease reports whether this process may still be the only active controller.
type Lease interface {
	// Fresh reports whether the lease was renewed recently. It makes no API call.
	Fresh(now time.Time) bool
}

// retryLease is the interval at which a lease that is not fresh is checked. The lease is renewed every few seconds.
const retryLease = time.Second

// errLeaseOld ends a reconcile when the lease has not been renewed in time.
var errLeaseOld = errors.New("the lease was not renewed in time")

// leaseCheck is a lease with its clock. A nil lease is always fresh.
type leaseCheck struct {
	lease Lease
	clock clock.PassiveClock
}

func (l leaseCheck) old() bool { return l.lease != nil && !l.lease.Fresh(l.clock.Now()) }
