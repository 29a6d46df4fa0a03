package servers

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
)

// Known is what is known of one server. Times use our clock, except those in Row.
type Known struct {
	Row
	// Sighted: the cloud has shown a row of it.
	Sighted bool
	// Ending are the volumes that end with the server, as far as a row has ever shown them, sorted.
	Ending []string
	// Gone: it was shown DELETED, or one GET by its ID answered 404. It stays as a tombstone, so that a list that lags
	// does not bring it back. GoneAt is when that was found.
	Gone   bool
	GoneAt time.Time
	// Missing: a complete list did not have it. That proves nothing, but is worth a GET.
	Missing bool
	// Since is when we first knew of it.
	Since time.Time
	// Wanted: it is gone or missing because drover, or the deletion of its Machine, wanted it. Accepted: an operator has confirmed
	// the loss.
	Wanted, Accepted bool
	// Detached says that the server has lost its Machine's ports; empty: it has not, as far as is known.
	Detached string

	// tagged is the Machine that it belongs to by its tags; empty: none of this cluster. claimed is the Machine that adopts it, until
	// its tags are written; empty: none. expected is the Machine that names it, while the cloud has shown no row of it, which is no
	// evidence that the server is that Machine's.
	tagged, claimed, expected types.UID
	// missingSince is when it became missing, while it is.
	missingSince time.Time
	// goneByGet: it is gone by the answer 404 alone. A complete list that is begun later brings it back.
	goneByGet bool
	// fluxSince is when it last began to change; zero at rest.
	fluxSince time.Time
	// firstAsked and asked are when its deletion was first and last requested, times how often.
	firstAsked, asked time.Time
	times             int
	// taggedAt is when it was last tried to write the tags onto it.
	taggedAt time.Time
	// explained: it is in ERROR, and was asked why by its ID.
	explained bool
	// activeSince is when it was first seen ACTIVE; zero while it is not. portsLooked is when its Machine's ports were looked at
	// since it did not become a node; zero: never.
	activeSince, portsLooked time.Time
}

// Machine returns the Machine that the server is indexed under: the one that it belongs to, else the one that expects it.
func (k *Known) Machine() types.UID { return cmp.Or(k.claimed, k.tagged, k.expected) }

// BelongsTo reports whether the server is, or was, the Machine's by evidence of the cloud.
func (k *Known) BelongsTo(machine types.UID) bool {
	return machine != "" && cmp.Or(k.claimed, k.tagged) == machine
}

// IsTagged reports whether the server's own tags name a Machine, and no other cluster.
func (k *Known) IsTagged() bool { return k.tagged != "" }

// IsExpected reports whether a Machine names the server and no list has shown it yet.
func (k *Known) IsExpected() bool { return k.expected != "" }

// Present reports whether the server exists, as far as is known.
func (k *Known) Present() bool { return !k.Gone && !k.Missing }

// Failed reports whether the server will never become a node: it is in ERROR, or has lost its ports.
func (k *Known) Failed() bool { return k.Status == StatusError || k.Detached != "" }

// Unexplained reports whether the server is in ERROR and no list has said why. Nova's lists show the fault only of servers whose
// records are in the database that its API has as its own; in the usual installation those without a host are not (seen in Zed).
func (k *Known) Unexplained() bool {
	return k.Status == StatusError && k.Fault.Message == "" && !k.explained
}

// Explain notes that the server was asked for by its ID, which answers why it is in ERROR.
func (k *Known) Explain() { k.explained = k.Status == StatusError }

// DetachedFault is why a server that has lost its ports counts as failed.
func (k *Known) DetachedFault() *fault.Error {
	return fault.New(fault.Transient, fault.CodeServerError, "%s", k.Detached)
}

// show takes in a row that the cloud has shown.
func (k *Known) show(r Row, now time.Time) {
	k.Row, k.Missing, k.goneByGet, k.Sighted = r, false, false, true
	if r.Status != statusDeleted {
		k.expected = ""
	}
	k.Ending = slices.Concat(k.Ending, r.endingVolumes())
	slices.Sort(k.Ending)
	k.Ending = slices.Compact(k.Ending)
	k.explained = k.explained && r.Status == StatusError
	k.Gone = r.Status == statusDeleted
	if r.Status != StatusActive {
		k.activeSince = time.Time{}
	} else if k.activeSince.IsZero() {
		k.activeSince = now
	}
	switch {
	case k.Gone:
		k.GoneAt, k.fluxSince = now, time.Time{}
	case !r.inFlux():
		k.fluxSince = time.Time{}
	case k.fluxSince.IsZero():
		k.fluxSince = now
	}
}

// markGone makes a tombstone of the server: a GET by its ID answered 404.
func (k *Known) markGone(now time.Time) {
	k.Gone, k.GoneAt, k.fluxSince, k.Missing, k.goneByGet = true, now, time.Time{}, false, true
}
