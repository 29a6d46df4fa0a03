package openstack

import "time"

// How often the servers of a project are listed, and how.
const (
	// fastPeriod is the period while a server of ours is being deleted, or a create is not settled: a Machine waits for the
	// answer. buildPeriod is the period while servers are only being built, for which nobody waits: a Node that registers
	// counts at once. restPeriod is the period otherwise.
	fastPeriod  = 2 * time.Second
	buildPeriod = 5 * time.Second
	restPeriod  = time.Minute
	// longFlux is how long a server may be in flux before it counts as stuck, which is nothing to hurry for.
	longFlux = 10 * time.Minute
	// fullPeriod is the time between complete lists; unsettledFullPeriod while it is not known whether a create worked.
	fullPeriod          = 10 * time.Minute
	unsettledFullPeriod = 30 * time.Second
	// overlap is how far a list of changes reaches back before the last one, on the cloud's clock: what is being written
	// there while we ask bears an older stamp.
	overlap = time.Minute
)

// period gives the time until the next list. mine tells which servers are worth hurrying for.
func (inv *inventory) period(now time.Time, unsettled bool, mine func(*knownServer) bool) time.Duration {
	if unsettled {
		return fastPeriod
	}
	next := restPeriod
	for _, k := range inv.servers {
		if began := k.changing(); !began.IsZero() && !k.gone && mine(k) {
			next = min(next, k.period(now.Sub(began)))
		}
	}
	return next
}

// changing is since when something is expected of the server; zero when nothing is.
func (k *knownServer) changing() time.Time {
	if k.asked.After(k.fluxSince) {
		return k.asked
	}
	return k.fluxSince
}

// period returns the time until the next look at a server that has been changing for so long.
func (k *knownServer) period(flux time.Duration) time.Duration {
	switch {
	case flux >= longFlux:
		return restPeriod
	case k.Status == statusBuild && k.TaskState != taskDeleting && k.asked.IsZero():
		return buildPeriod
	}
	return fastPeriod
}

// isFullDue tells whether the next list must be a complete one.
func isFullDue(now, lastFull time.Time, unsettled bool) bool {
	since := now.Sub(lastFull)
	return lastFull.IsZero() || since >= fullPeriod || unsettled && since >= unsettledFullPeriod
}

// attempt is a create whose outcome is not known.
type attempt struct {
	// ended is when the call ended; fulls how many complete lists there had been by then.
	ended time.Time
	fulls int
	// suspected: whoever was here before may have made it, and told nobody. A second look settles it (suspect.go).
	suspected bool
}

// How a create with an unknown outcome is settled: not before settleTime has passed and settleLists complete lists have
// not shown the thing.
const (
	settleTime  = 2 * time.Minute
	settleLists = 2
)

// settled tells whether the thing may be made again.
func (a attempt) settled(now time.Time, fulls int) bool {
	return !a.suspected && now.Sub(a.ended) >= settleTime && fulls-a.fulls >= settleLists
}
