package servers

import "time"

// How often the servers of a project are listed, and how.
const (
	// FastPeriod is the period while a server of ours is being deleted, or a create is not settled: a Machine waits for the
	// answer. BuildPeriod is the period while servers are only being built, which can wait: a Node that registers
	// counts at once. RestPeriod is the period otherwise.
	FastPeriod  = 2 * time.Second
	BuildPeriod = 5 * time.Second
	RestPeriod  = time.Minute
	// longFlux is how long a server may be in flux before it counts as stuck, which is nothing to hurry for.
	longFlux = 10 * time.Minute
	// FullPeriod is the time between complete lists; unsettledFullPeriod while it is not known whether a create worked.
	FullPeriod          = 10 * time.Minute
	unsettledFullPeriod = 30 * time.Second
	// Overlap is how far a list of changes reaches back before the last one, on the cloud's clock: what is being written
	// there while we ask has an older time.
	Overlap = time.Minute
)

// Period returns the time until the next list. mine reports whether a server is one of this cluster.
func (c *Cache) Period(now time.Time, unsettled bool, mine func(*Known) bool) time.Duration {
	if unsettled {
		return FastPeriod
	}
	next := RestPeriod
	for _, k := range c.byID {
		if began := k.changing(); !began.IsZero() && !k.Gone && mine(k) {
			next = min(next, k.period(now.Sub(began)))
		}
	}
	return next
}

// changing returns the time since when the server is expected to change; zero when it is not.
func (k *Known) changing() time.Time {
	if k.asked.After(k.fluxSince) {
		return k.asked
	}
	return k.fluxSince
}

// period returns the time until the next look at a server that has been changing for so long.
func (k *Known) period(flux time.Duration) time.Duration {
	switch {
	case flux >= longFlux:
		return RestPeriod
	case k.Status == StatusBuild && k.TaskState != taskDeleting && k.asked.IsZero():
		return BuildPeriod
	}
	return FastPeriod
}

// IsFullDue reports whether the next list must be a complete one.
func IsFullDue(now, lastFull time.Time, unsettled bool) bool {
	since := now.Sub(lastFull)
	return lastFull.IsZero() || since >= FullPeriod || unsettled && since >= unsettledFullPeriod
}
