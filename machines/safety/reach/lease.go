package reach

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// leadership tracks whether the lease is held.
type leadership struct {
	// version is the resourceVersion at the last read of the lease.
	version string
	// held is when a renewal of the lease was last seen; zero: the lease was not read yet.
	held time.Time
}

// begin records that the lease is read. From the first read on the time counts as without a leader.
func (l *leadership) begin(now time.Time) {
	if l.held.IsZero() {
		l.held = now
	}
}

// see records a read of the lease. A lease that has a holder and is not renewed counts as not held. Renewals are detected by
// changes of the object, and not by the clock of another machine.
func (l *leadership) see(lease *coordinationv1.Lease, now time.Time) {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.ResourceVersion == l.version {
		return
	}
	l.version, l.held = lease.ResourceVersion, now
}

// leaderless returns how long no replica has held the lease; 0 while that is not known.
func (l *leadership) leaderless(now time.Time) time.Duration {
	if l.held.IsZero() {
		return 0
	}
	return now.Sub(l.held)
}
