package machine

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// asked is what a Machine asks the cloud for, as far as a refusal of it concerns other Machines too.
type asked struct {
	flavor, zone string
	// machine is the Machine's name.
	machine string
	// revision is that of the Machine's template; 0 where there is none.
	revision int64
	// server is the ID of the server that the cloud made and then put into ERROR; empty when it refused the request.
	server string
}

const (
	// mostShortages bounds how many are remembered of a group, as the schema does.
	mostShortages = 64
	// mostMessage bounds the message of one, in bytes, as the schema does.
	mostMessage = 1024
	// shortageLife is how long after its wait has ended a shortage still counts as the one before the next.
	shortageLife = time.Hour
)

// standing returns the shortage that keeps a Machine from asking the cloud, whether its wait still runs or not; nil when
// there is none. One failed server alone keeps nobody back. A newer template is not held up by the failures of an older one, and a raised quota ends what was a
// failure before (design §2.7).
func standing(list []v1alpha1.GroupBackoff, a asked, quotaRaised time.Time) *v1alpha1.GroupBackoff {
	var longest *v1alpha1.GroupBackoff
	for i := range list {
		e := &list[i]
		raised := e.Class == string(fault.Quota) && quotaRaised.After(lastFailure(e))
		if e.Flavor != a.flavor || e.Zone != a.zone || a.revision > e.Revision || raised || waitOf(e) == 0 {
			continue
		}
		if longest == nil || e.Until.After(longest.Until.Time) {
			longest = e
		}
	}
	return longest
}

// lastFailure is when the cloud was last asked in vain, to the second.
func lastFailure(e *v1alpha1.GroupBackoff) time.Time { return e.Until.Add(-waitOf(e)) }

// waitOf returns how long the wait is that the entry's last failure began.
func waitOf(e *v1alpha1.GroupBackoff) time.Duration {
	return fault.GroupWait(fault.Class(e.Class), fault.Code(e.Code), e.Step)
}

// withFailure adds a failure to the list. While the wait for an earlier one of its kind runs nothing changes: the calls of
// one moment are one attempt. Nor does it when the same failed server is seen again.
//
// Failed servers of which the cloud gave no reason that concerns all are one kind, of class Unknown, whatever each died of.
func withFailure(list []v1alpha1.GroupBackoff, a asked, err *fault.Error, now time.Time) []v1alpha1.GroupBackoff {
	e := firstFailure(a, err, now)
	out := make([]v1alpha1.GroupBackoff, 0, len(list)+1)
	for _, old := range list {
		same := old.Class == e.Class && old.Flavor == e.Flavor && old.Zone == e.Zone
		switch {
		case same && counted(&old, a, now):
			return list
		case same && a.revision <= old.Revision && now.Before(old.Until.Add(shortageLife)):
			e.Step, e.Since, e.Revision = old.Step+1, old.Since, old.Revision
		case !same && now.Before(old.Until.Add(shortageLife)):
			out = append(out, old)
		}
	}
	e.Until = metav1.NewTime(wholeSecond(now.Add(max(waitOf(&e), err.RetryAfter))))
	out = append(out, e)
	slices.SortFunc(out, func(a, b v1alpha1.GroupBackoff) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Zone, b.Zone))
	})
	if len(out) > mostShortages {
		oldest := slices.MinFunc(out, func(a, b v1alpha1.GroupBackoff) int { return a.Until.Compare(b.Until.Time) })
		out = slices.DeleteFunc(out, func(x v1alpha1.GroupBackoff) bool { return x == oldest })
	}
	return out
}

// firstFailure returns the entry of a failure that none of its kind came before.
func firstFailure(a asked, err *fault.Error, now time.Time) v1alpha1.GroupBackoff {
	e := v1alpha1.GroupBackoff{
		Class: string(err.Class), Flavor: a.flavor, Zone: a.zone, Code: string(err.Code),
		Machine: a.machine, Message: fault.Cut(fault.Line(err.Message), mostMessage),
		Since: new(metav1.NewTime(wholeSecond(now))), Step: 1, Revision: a.revision, Server: a.server,
	}
	if !fault.PolicyOf(err.Class).OpensBackoff {
		e.Class = string(fault.Unknown)
	}
	return e
}

// counted reports whether an entry of the same kind covers the failure already: its wait still runs, or it was the same
// server.
func counted(old *v1alpha1.GroupBackoff, a asked, now time.Time) bool {
	waits := a.revision <= old.Revision && old.Until.After(now) && waitOf(old) > 0
	return waits || a.server != "" && a.server == old.Server
}

// withSuccess drops what a server that has become ACTIVE disproves: the failures from before it was asked for (made; zero
// when that is not known), and those whose wait is over.
func withSuccess(list []v1alpha1.GroupBackoff, a asked, made, now time.Time) []v1alpha1.GroupBackoff {
	return slices.DeleteFunc(slices.Clone(list), func(e v1alpha1.GroupBackoff) bool {
		return e.Flavor == a.flavor && e.Zone == a.zone && a.revision >= e.Revision &&
			(made.After(lastFailure(&e)) || !now.Before(e.Until.Time))
	})
}

// wholeSecond rounds up, since that is how exactly the API server keeps a time.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t
}

// mostJoins is how many outcomes of joins are remembered of a group.
const mostJoins = 10

// The outcomes, as status.recentJoins has them.
const (
	joinedWell = "j"
	joinFailed = "f"
)

// withJoin adds an outcome. While none has failed nothing is remembered, so that a healthy group costs no write; before
// the first failure stand the nodes that there are.
func withJoin(recent string, well bool, nodes int) string {
	outcome := joinFailed
	if well {
		outcome = joinedWell
	}
	switch {
	case well && recent == "":
		return ""
	case recent == "":
		for range min(nodes, mostJoins-1) {
			recent += joinedWell
		}
	}
	recent += outcome
	recent = recent[max(0, len(recent)-mostJoins):]
	for _, c := range recent {
		if string(c) == joinFailed {
			return recent
		}
	}
	return ""
}

// joinsFail tells whether at least half of the last joins have failed (CAPI-26).
func joinsFail(recent string) bool {
	failed := 0
	for _, c := range recent {
		if string(c) == joinFailed {
			failed++
		}
	}
	return failed > 0 && 2*failed >= len(recent)
}
