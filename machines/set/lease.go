package set

import (
	"errors"
	"time"
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

func (r *Reconciler) leaseOld() bool {
	return r.options.Lease != nil && !r.options.Lease.Fresh(r.clock.Now())
}
