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
	// held is when a renewal of the lease was last seen. Before the first renewal it is when the lease was first read; zero
	// means that the lease was not read yet.
	held time.Time
}

// begin records the time of the first read of the lease. The time from then until the first renewal counts as time without a
// leader.
func (l *leadership) begin(now time.Time) {
	if l.held.IsZero() {
		l.held = now
	}
}

// see records the result of reading the lease. A lease that has a holder but is not renewed counts as not held. see detects a
// renewal by a change of the object, and does not compare with the clock of another machine.
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
