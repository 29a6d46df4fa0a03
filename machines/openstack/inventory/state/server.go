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
	// fate is whether the server exists, and fateAt is since when drover knows that it does not, or may not; zero while it exists.
	fate   fate
	fateAt time.Time
	// since is when drover first learned of the server.
	since time.Time
	// detached describes, for users, that the server has lost its Machine's ports; empty while the server has the ports as far as
	// is known.
	detached string

	// tagged is the Machine in the server's tags; empty when they name no Machine of this cluster. adopter is the Machine that
	// adopts the server, until the server's tags are written; empty when there is none. expected is a Machine that names the
	// server, as long as the cloud has shown no row of the server; the server may belong to another Machine.
	tagged, adopter, expected types.UID
	// stateSince is when the server was first seen in its present state.
	stateSince time.Time
	// firstAsked and asked are when drover first and last requested the deletion of the server, and times is the number of these
	// requests.
	firstAsked, asked time.Time
	times             int
	// taggedAt is when drover last tried to write the tags.
	taggedAt time.Time
	// explained is true when the server is in ERROR and was looked up by its ID for the reason.
	explained bool
	// portsLooked is when the ports of its Machine were last looked up because the server had not become a node; zero when they never
	// were.
	portsLooked time.Time
}

// fate is whether a server exists, as far as is known.
type fate int

const (
	// present means that the server exists.
	present fate = iota
	// missing means that a complete list lacked the server, or that a request to delete it was answered with 404. This does not prove
	// that the server is gone; a GET by its ID must decide.
	missing
	// notFound means that a GET by the ID was answered with 404. If a complete list that begins later shows the server, it exists again.
	notFound
	// deleted means that a row had the status DELETED.
	deleted
)

// gone reports whether the server is proven gone. It stays in the cache as a tombstone, so that a list that lags does not make it exist
// again.
func (k *server) gone() bool { return k.fate >= notFound }

// machine returns the Machine that the server is indexed under: the server's owner, or else the Machine that expects the server.
func (k *server) machine() types.UID { return cmp.Or(k.adopter, k.tagged, k.expected) }

// belongsTo reports whether the cloud has shown that the server is, or was, the Machine's.
func (k *server) belongsTo(machine types.UID) bool {
	return machine != "" && cmp.Or(k.adopter, k.tagged) == machine
}

// failed reports whether the server will never become a node: it is in ERROR, or has lost its ports.
func (k *server) failed() bool { return k.Status == statusError || k.detached != "" }

// unexplained reports whether the server is in ERROR and no list has shown the reason. Nova's lists show the fault only for servers
// in the database of its API. In the usual installation, servers without a host are not in that database (seen in Zed).
func (k *server) unexplained() bool {
	return k.Status == statusError && k.Fault.Message == "" && !k.explained
}

// show records a row that the cloud has shown.
func (k *server) show(r ServerRow, now time.Time) {
	if r.State() != k.State() {
		k.stateSince = now
	}
	k.ServerRow, k.fate, k.fateAt, k.sighted = r, present, time.Time{}, true
	if r.Status == statusDeleted {
		k.fate, k.fateAt = deleted, now
	} else {
		k.expected = ""
	}
	k.ending = slices.Concat(k.ending, r.endingVolumes())
	slices.Sort(k.ending)
	k.ending = slices.Compact(k.ending)
	k.explained = k.explained && r.Status == statusError
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
	return min(30*time.Second<<(min(times, 5)-1), 5*time.Minute)
}
