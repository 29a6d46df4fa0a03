package state

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// server is the cached state of one server. Times use drover's clock, except those in ServerRow.
type server struct {
	ServerRow
	// sighted is true when the cloud has shown a row of the server.
	sighted bool
	// ending are the volumes that Nova deletes with the server, from all rows that the cloud has shown, sorted.
	ending []string
	// gone is true when a row had the status DELETED, or a GET by the ID answered 404. The server stays in the cache as a
	// tombstone, so that a list that lags does not make it exist again. goneAt is when drover found that the server is gone.
	gone   bool
	goneAt time.Time
	// missing is true when a complete list lacked the server. This does not prove that the server is gone; a GET by its ID must
	// decide.
	missing bool
	// since is when drover first learned of the server.
	since time.Time
	// detached describes, for users, that the server has lost its Machine's ports; empty while the server has the ports as far as
	// is known.
	detached string

	// tagged is the Machine in the server's tags; empty when they name no Machine of this cluster. adopter is the Machine that
	// adopts the server, until the server's tags are written; empty when there is none. expected is a Machine that names the
	// server, as long as the cloud has shown no row of the server; the server may belong to another Machine.
	tagged, adopter, expected types.UID
	// missingSince is when the server became missing; zero while it is not.
	missingSince time.Time
	// goneByGet is true when only a 404 has shown that the server is gone. If a complete list that begins later shows the server,
	// it exists again.
	goneByGet bool
	// fluxSince is when the server entered a state that it leaves without another request, such as BUILD; zero when it is not in
	// such a state.
	fluxSince time.Time
	// firstAsked and asked are when drover first and last requested the deletion of the server, and times is the number of these
	// requests.
	firstAsked, asked time.Time
	times             int
	// taggedAt is when drover last tried to write the tags.
	taggedAt time.Time
	// explained is true when the server is in ERROR and was looked up by its ID for the reason.
	explained bool
	// activeSince is when the server was first seen ACTIVE; zero while it is not ACTIVE. portsLooked is when the ports of its
	// Machine were last looked up because the server had not become a node; zero when they never were.
	activeSince, portsLooked time.Time
}

// machine returns the Machine that the server is indexed under: the server's owner, or else the Machine that expects the server.
func (k *server) machine() types.UID { return cmp.Or(k.adopter, k.tagged, k.expected) }

// belongsTo reports whether the cloud has shown that the server is, or was, the Machine's.
func (k *server) belongsTo(machine types.UID) bool {
	return machine != "" && cmp.Or(k.adopter, k.tagged) == machine
}

// present reports whether the server exists, as far as is known.
func (k *server) present() bool { return !k.gone && !k.missing }

// failed reports whether the server will never become a node: it is in ERROR, or has lost its ports.
func (k *server) failed() bool { return k.Status == statusError || k.detached != "" }

// unexplained reports whether the server is in ERROR and no list has shown the reason. Nova's lists show the fault only for servers
// in the database of its API. In the usual installation, servers without a host are not in that database (seen in Zed).
func (k *server) unexplained() bool {
	return k.Status == statusError && k.Fault.Message == "" && !k.explained
}

// show records a row that the cloud has shown.
func (k *server) show(r ServerRow, now time.Time) {
	k.ServerRow, k.missing, k.goneByGet, k.sighted = r, false, false, true
	if r.Status != statusDeleted {
		k.expected = ""
	}
	k.ending = slices.Concat(k.ending, r.endingVolumes())
	slices.Sort(k.ending)
	k.ending = slices.Compact(k.ending)
	k.explained = k.explained && r.Status == statusError
	k.gone = r.Status == statusDeleted
	if r.Status != statusActive {
		k.activeSince = time.Time{}
	} else if k.activeSince.IsZero() {
		k.activeSince = now
	}
	switch {
	case k.gone:
		k.goneAt, k.fluxSince = now, time.Time{}
	case !r.inFlux():
		k.fluxSince = time.Time{}
	case k.fluxSince.IsZero():
		k.fluxSince = now
	}
}

const (
	// forceAfter is how many plain delete requests drover sends for a server. The fourth and later requests (from 3.5 min after
	// the first) are forced deletes, which Nova carries out whatever the server's state is.
	forceAfter = 3
	// stuckAfter is how long a deletion may take before it counts as stuck (CAPI-44).
	stuckAfter = 10 * time.Minute
)

// Deletion is a server whose deletion must be requested now. Force is true when plain requests had no effect.
type Deletion struct {
	ServerID string
	Force    bool
}

// isDeletionDue reports whether the server's deletion may be requested now: the back-off after the last request is over, which is
// 30 s and doubles to 5 min.
func (k *server) isDeletionDue(now time.Time) bool {
	return k.asked.IsZero() || now.Sub(k.asked) >= deletionBackoff(k.times)
}

// nextDeletion returns the request for the server's deletion.
func (k *server) nextDeletion() Deletion { return Deletion{k.ID, k.times >= forceAfter} }

// deletionRequested records that a request to delete the server was accepted.
func (k *server) deletionRequested(now time.Time) {
	k.asked = now
	if k.times++; k.firstAsked.IsZero() {
		k.firstAsked = now
	}
}

// isStuck reports whether the server still exists long after its deletion was first requested.
func (k *server) isStuck(now time.Time) bool {
	return !k.firstAsked.IsZero() && now.Sub(k.firstAsked) > stuckAfter
}

// deletionBackoff returns the time between two requests to delete the same server.
func deletionBackoff(times int) time.Duration {
	wait := 30 * time.Second
	for range min(times, 5) - 1 {
		wait *= 2
	}
	return min(wait, 5*time.Minute)
}
