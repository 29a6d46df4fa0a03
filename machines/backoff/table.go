package backoff

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Attempt is what a Machine asks the cloud for, as far as a failure of it concerns other Machines of its group.
type Attempt struct {
	// Machine is the Machine that asks, and UID its UID.
	Machine types.NamespacedName
	UID     types.UID
	// Flavor and Zone are the placement that it asks for, as the provider spec names them; empty where it names none.
	Flavor, Zone string
	// Revision is that of the Machine's template; 0 where there is none.
	Revision int64
	// Server is the ID of the server that the cloud made and then put into ERROR; empty when the cloud refused the request.
	Server string
}

const (
	// maxBackoffs bounds the entries of a group, as the schema does.
	maxBackoffs = 64
	// maxMessage bounds the message of an entry, in bytes, as the schema does.
	maxMessage = 1024
	// rememberFor is how long after the end of its wait an entry still counts as the failure before the next one.
	rememberFor = time.Hour
)

// WaitOf returns how long the wait is that the entry's last failure began; 0 when it keeps no Machine waiting.
func WaitOf(e *v1alpha1.GroupBackoff) time.Duration {
	return fault.GroupWait(fault.Class(e.Class), fault.Code(e.Code), e.Step)
}

// FailureFor returns the failure that the Machine of that name shows while it waits for the entry's back-off to end.
func FailureFor(e *v1alpha1.GroupBackoff, machine string) *fault.Error {
	return &fault.Error{Class: fault.Class(e.Class), Code: fault.Code(e.Code), Message: e.MessageFor(machine)}
}

// lastFailure returns when the cloud last refused, rounded to seconds.
func lastFailure(e *v1alpha1.GroupBackoff) time.Time { return e.Until.Add(-WaitOf(e)) }

// activeFor returns the entry that keeps the attempt from the cloud, whether its wait still runs or not; nil when there is
// none. One failed server alone keeps no Machine waiting. A newer template does not wait for the failures of an older one, and
// a quota that was raised (at quotaRaised; zero: it was not) ends the failures from before.
func activeFor(list []v1alpha1.GroupBackoff, a Attempt, quotaRaised time.Time) *v1alpha1.GroupBackoff {
	var longest *v1alpha1.GroupBackoff
	for i := range list {
		e := &list[i]
		raised := e.Class == string(fault.Quota) && quotaRaised.After(lastFailure(e))
		if e.Flavor != a.Flavor || e.Zone != a.Zone || a.Revision > e.Revision || raised || WaitOf(e) == 0 {
			continue
		}
		if longest == nil || e.Until.After(longest.Until.Time) {
			longest = e
		}
	}
	return longest
}

// withFailure returns the list with a failure added. While the wait of an earlier failure of its kind runs, nothing changes:
// the calls of one moment are one attempt. Nothing changes either when the same failed server is seen again.
//
// Failed servers for which the cloud named no cause that concerns all Machines are one kind, of class Unknown, whatever the
// cause of each was.
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

// firstFailure returns the entry of the first failure of its kind.
func firstFailure(a Attempt, err *fault.Error, now time.Time) v1alpha1.GroupBackoff {
	e := v1alpha1.GroupBackoff{
		Class: string(err.Class), Flavor: a.Flavor, Zone: a.Zone, Code: string(err.Code),
		Machine: a.Machine.Name, Message: fault.Cut(fault.Line(err.Message), maxMessage),
		Since: new(metav1.NewTime(wholeSecond(now))), Step: 1, Revision: a.Revision, Server: a.Server,
	}
	if !fault.PolicyOf(err.Class).OpensBackoff {
		e.Class = string(fault.Unknown)
	}
	return e
}

// covers reports whether an entry of the same kind counts the failure already: its wait still runs, or it was the same
// server.
func covers(old *v1alpha1.GroupBackoff, a Attempt, now time.Time) bool {
	waits := a.Revision <= old.Revision && old.Until.After(now) && WaitOf(old) > 0
	return waits || a.Server != "" && a.Server == old.Server
}

// withSuccess returns the list without the entries that a server which has become ACTIVE disproves: the failures from before
// it was ordered (zero: not known when), and those whose wait is over.
func withSuccess(list []v1alpha1.GroupBackoff, a Attempt, ordered, now time.Time) []v1alpha1.GroupBackoff {
	return slices.DeleteFunc(slices.Clone(list), func(e v1alpha1.GroupBackoff) bool {
		return e.Flavor == a.Flavor && e.Zone == a.Zone && a.Revision >= e.Revision &&
			(ordered.After(lastFailure(&e)) || !now.Before(e.Until.Time))
	})
}

// wholeSecond rounds up to seconds, which is the precision of the API server.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t
}
