package reach

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// leadership is what is known of the lease.
type leadership struct {
	// version is the resourceVersion of the lease that was last read.
	version string
	// held is when it was last seen to be renewed; zero: it was not read yet.
	held time.Time
}

// begin notes that the lease is read. From the first read on the time counts without a holder.
func (l *leadership) begin(now time.Time) {
	if l.held.IsZero() {
		l.held = now
	}
}

// see takes in a lease that was read. One that has a holder and is not renewed counts as unheld: what counts is the change that
// is seen, not a clock of another machine.
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
