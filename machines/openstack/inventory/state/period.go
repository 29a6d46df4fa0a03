package state

import "time"

// The periods of the lists of servers.
const (
	// FastPeriod is the period while a server of this cluster is being deleted or a create is in doubt, because a Machine waits
	// for the result. BuildPeriod is the period while servers are only being built. This is less urgent, because drover needs no
	// list to notice that a Node has registered. RestPeriod is the period otherwise.
	FastPeriod  = 2 * time.Second
	BuildPeriod = 5 * time.Second
	RestPeriod  = time.Minute
	// longFlux is how long a server may be in a state that it leaves without another request, such as BUILD, before it counts as
	// stuck. A stuck server does not shorten the period of the lists.
	longFlux = 10 * time.Minute
	// FullPeriod is the time between complete lists; unsettledFullPeriod is the time while a create is in doubt.
	FullPeriod          = 10 * time.Minute
	unsettledFullPeriod = 30 * time.Second
	// Overlap is how far a list of changes reaches back before the last list, on the cloud's clock, because a change that Nova
	// writes during a list has an older time.
	Overlap = time.Minute
)

// period returns the time until the next list. unsettled is true while a create is in doubt. mine reports whether a server
// belongs to this cluster.
func (c *Servers) period(now time.Time, unsettled bool, mine func(*server) bool) time.Duration {
	if unsettled {
		return FastPeriod
	}
	next := RestPeriod
	for _, k := range c.byID {
		if began := k.changing(); !began.IsZero() && !k.gone && mine(k) {
			next = min(next, k.period(now.Sub(began)))
		}
	}
	return next
}

// changing returns when the server entered the state that it is expected to leave soon, or when its deletion was last requested,
// whichever is later; zero when the server is not expected to change.
func (k *server) changing() time.Time {
	if k.asked.After(k.fluxSince) {
		return k.asked
	}
	return k.fluxSince
}

// period returns the time until the next list of servers, if this server is the only one that changes. flux is how long it has
// been changing.
func (k *server) period(flux time.Duration) time.Duration {
	switch {
	case flux >= longFlux:
		return RestPeriod
	case k.Status == statusBuild && k.TaskState != taskDeleting && k.asked.IsZero():
		return BuildPeriod
	}
	return FastPeriod
}

// isFullDue reports whether the next list must be a complete one.
func isFullDue(now, lastFull time.Time, unsettled bool) bool {
	since := now.Sub(lastFull)
	return lastFull.IsZero() || since >= FullPeriod || unsettled && since >= unsettledFullPeriod
}
