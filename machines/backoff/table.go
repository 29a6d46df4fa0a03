package backoff

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Attempt describes the server that a Machine requests. Its fields decide which other Machines of the group also wait when the
// server cannot be created.
type Attempt struct {
	// Machine is the name of the Machine, and UID its UID.
	Machine types.NamespacedName
	UID     types.UID
	// Flavor and Zone are the placement in the provider spec; empty when the provider spec names none.
	Flavor, Zone string
	// Revision is the revision of the Machine's template; 0 when there is no revision.
	Revision int64
	// Server is the ID of a server that the cloud created and then put into ERROR; empty when the cloud refused the request.
	Server string
}

const (
	// maxBackoffs bounds the number of back-off entries of a group. The schema has the same bound.
	maxBackoffs = 64
	// maxMessage bounds the message of a back-off entry, in bytes. The schema has the same bound.
	maxMessage = 1024
	// rememberFor is how long a back-off entry stays in the list after its wait has ended. When the same failure occurs in this
	// time, the next wait is longer.
	rememberFor = time.Hour
)

// WaitOf returns the length of the wait after the last failure of a back-off entry; 0 when the entry blocks no Machine.
func WaitOf(e *v1alpha1.GroupBackoff) time.Duration {
	return fault.GroupWait(fault.Class(e.Class), fault.Code(e.Code), e.Step)
}

// FailureFor returns the failure that drover reports for a Machine while the Machine waits for the end of a back-off. A Machine
// whose own failure made the entry, and whose status has the complete message, keeps that message: the entry's may be cut.
func FailureFor(e *v1alpha1.GroupBackoff, m *v1alpha1.Machine) *fault.Error {
	message := e.MessageFor(m.Name)
	if shown := ptr.Deref(m.Status.ErrorMessage, ""); e.Machine == m.Name && recorded(shown) == e.Message {
		message = shown
	}
	return &fault.Error{Class: fault.Class(e.Class), Code: fault.Code(e.Code), Message: message}
}

// recorded returns the text that a back-off entry holds of a failure's message: one line, cut to the length that the schema
// allows.
func recorded(message string) string { return fault.Cut(fault.Line(message), maxMessage) }

// lastFailure returns when the last failure of a back-off entry occurred, rounded to seconds.
func lastFailure(e *v1alpha1.GroupBackoff) time.Time { return e.Until.Add(-WaitOf(e)) }

// bounded returns the list with no wait that ends later than the entry's own wait from now. Such an entry is from a clock that
// was ahead, of an earlier leader perhaps.
func bounded(list []v1alpha1.GroupBackoff, now time.Time) []v1alpha1.GroupBackoff {
	out := slices.Clone(list)
	for i := range out {
		if latest := wholeSecond(now.Add(WaitOf(&out[i]))); out[i].Until.After(latest) {
			out[i].Until = metav1.NewTime(latest)
		}
	}
	return out
}

// activeFor returns a copy of the entry that applies to the attempt, even when the entry's wait is over; nil when no entry applies. One
// failed server alone blocks no Machine. A newer template does not wait because of failures of an older one. A failure for lack
// of quota blocks no Machine once the quota has been raised. quotaRaised is when the quota was last raised; zero means that it
// was not.
func activeFor(list []v1alpha1.GroupBackoff, a Attempt, quotaRaised time.Time) *v1alpha1.GroupBackoff {
	var longest *v1alpha1.GroupBackoff
	for _, e := range list {
		raised := e.Class == string(fault.Quota) && quotaRaised.After(lastFailure(&e))
		if e.Flavor != a.Flavor || e.Zone != a.Zone || a.Revision > e.Revision || raised || WaitOf(&e) == 0 {
			continue
		}
		if longest == nil || e.Until.After(longest.Until.Time) {
			longest = &e
		}
	}
	return longest
}

// withFailure returns the list with a failure added. It returns the list unchanged while the wait after an earlier failure of the
// same kind runs, because calls made at the same time count as one attempt. It also returns the list unchanged when the failure
// of the same server is already recorded.
//
// A failure whose class does not open a group's back-off concerns only one Machine. All such failures are recorded with class
// Unknown, as failures of one kind.
func withFailure(list []v1alpha1.GroupBackoff, a Attempt, err *fault.Error, now time.Time) []v1alpha1.GroupBackoff {
	e := firstFailure(a, err, now)
	out := make([]v1alpha1.GroupBackoff, 0, len(list)+1)
	for _, old := range list {
		same := old.Class == e.Class && old.Flavor == e.Flavor && old.Zone == e.Zone
		switch {
		case same && covers(&old, a, now):
			return list
		case same && a.Revision <= old.Revision && now.Before(old.Until.Add(rememberFor)):
			e.Step, e.Since, e.Revision = old.Step+1, old.Since, old.Revision
		case !same && now.Before(old.Until.Add(rememberFor)):
			out = append(out, old)
		}
	}
	e.Until = metav1.NewTime(wholeSecond(now.Add(max(WaitOf(&e), err.RetryAfter))))
	out = append(out, e)
	slices.SortFunc(out, func(a, b v1alpha1.GroupBackoff) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Zone, b.Zone))
	})
	if len(out) > maxBackoffs {
		oldest := slices.MinFunc(out, func(a, b v1alpha1.GroupBackoff) int { return a.Until.Compare(b.Until.Time) })
		out = slices.DeleteFunc(out, func(x v1alpha1.GroupBackoff) bool { return x == oldest })
	}
	return out
}

// firstFailure returns the back-off entry for a failure as if it were the first one of its kind.
func firstFailure(a Attempt, err *fault.Error, now time.Time) v1alpha1.GroupBackoff {
	e := v1alpha1.GroupBackoff{
		Class: string(err.Class), Flavor: a.Flavor, Zone: a.Zone, Code: string(err.Code),
		Machine: a.Machine.Name, Message: recorded(err.Message),
		Since: new(metav1.NewTime(wholeSecond(now))), Step: 1, Revision: a.Revision, Server: a.Server,
	}
	if !fault.PolicyOf(err.Class).OpensBackoff {
		e.Class = string(fault.Unknown)
	}
	return e
}

// covers reports whether an entry of the same kind already includes the failure, because the entry's wait still runs or the
// entry was made for the same server.
func covers(old *v1alpha1.GroupBackoff, a Attempt, now time.Time) bool {
	waits := a.Revision <= old.Revision && old.Until.After(now) && WaitOf(old) > 0
	return waits || a.Server != "" && a.Server == old.Server
}

// withSuccess returns the list without the entries that an ACTIVE server disproves: entries whose wait is over, and entries
// whose last failure was before that server was requested. ordered is when the server was requested; zero means that this is
// not known.
func withSuccess(list []v1alpha1.GroupBackoff, a Attempt, ordered, now time.Time) []v1alpha1.GroupBackoff {
	return slices.DeleteFunc(slices.Clone(list), func(e v1alpha1.GroupBackoff) bool {
		return e.Flavor == a.Flavor && e.Zone == a.Zone && a.Revision >= e.Revision &&
			(ordered.After(lastFailure(&e)) || !now.Before(e.Until.Time))
	})
}

// wholeSecond rounds up to seconds, the precision of the API server.
func wholeSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }
