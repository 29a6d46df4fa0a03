package lifecycle

import (
	"cmp"
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// obstacle is a reason why nothing is created or deleted for a Machine, if it holds.
type obstacle struct {
	holds bool
	// Decision is the row of the lifecycle table; zero when another function decides.
	Decision
	// why is the reason for users.
	why string
}

// first returns the first obstacle that holds; zero when none does.
func first(obstacles []obstacle) (Decision, string) {
	for _, o := range obstacles {
		if o.holds {
			return o.Decision, o.why
		}
	}
	return Decision{}, ""
}

const (
	paused        = "the annotation " + v1alpha1.AnnotationPaused + " or " + v1alpha1.AnnotationPausedCAPI + " pauses this Machine"
	leaseTooOld   = "drover has not renewed its lease in time, so another process may be the leader"
	notSynced     = "drover has not read a complete list of the servers of this Machine's project since it started"
	serverUnknown = "no list of the cloud shows the server, which does not prove that it is gone"
)

// WhyNoServer returns why the cloud is not asked for a server of this Machine now: the first reason that holds, for users, and the
// step that it leads to. It returns an empty reason when nothing is in the way.
//
// Three things can still stop the request after that, because only the attempt shows them: another Machine takes the last quota, or a
// retained port of the Machine is being deleted, between Reserve and the request; the request waits in drover's own limiter; and the
// transport refuses it when the lease has become too old by then.
func WhyNoServer(f *Facts) (Decision, string) {
	return first([]obstacle{
		{f.Paused, Decision{Rest, ReasonPaused}, paused},
		{f.Deleting, Decision{}, "this Machine is being deleted"},
		{f.OtherController, Decision{Rest, ReasonOtherController}, "the label " + v1alpha1.LabelController + " of this Machine names another controller"},
		{f.CloudErr != nil, Decision{Fail, codeOf(f.CloudErr)}, messageOf(f.CloudErr)},
		{!f.Cloud.Synced, Decision{Wait, ReasonNotSynced}, notSynced},
		{f.Cloud.Foreign != "", Decision{Wait, ReasonForeign}, f.Cloud.Foreign},
		{f.Cloud.Unknown != "", Decision{Wait, ReasonServerUnknown}, f.Cloud.Unknown},
		{f.Cloud.Server != nil, Decision{}, "this Machine has a server"},
		{f.heldLoss(), Decision{Wait, ReasonHeld}, f.Cloud.Held},
		{f.Named && f.Cloud.Gone, Decision{LoseServer, ReasonServerGone}, "the server of this Machine was deleted, and a Machine gets no second one"},
		{f.Named, Decision{Wait, ReasonServerUnknown}, serverUnknown},
		{f.Initializing, Decision{Wait, ReasonInitializers}, "the annotation " + v1alpha1.AnnotationInitializers + " of this Machine names programs that must finish before its server is created"},
		{f.BackingOff, Decision{Wait, ReasonBackOff}, "drover waits after a failure of this Machine, and tries again automatically"},
		{!f.Permission.Allowed && f.Permission.Backoff != nil, Decision{Wait, ReasonGroupBackoff}, groupFailure(f.Permission.Backoff)},
		{!f.Permission.Allowed, Decision{Wait, ReasonJoinsFail}, "at least half of the group's last servers did not become nodes, so one server at a time is tried"},
		{f.LeaseOld, Decision{Wait, ReasonLeaseOld}, leaseTooOld},
		{f.Stale != "", Decision{Wait, ReasonAPIUnreachable}, f.Stale},
		{f.Refused != nil, Decision{Reserve, ReasonCreating}, messageOf(f.Refused)},
	})
}

// heldLoss reports whether the loss of the server is not believed: many servers are lost at once, and the kubelet of this one
// reports Ready. The kubelet counts more than the list: a cloud-controller-manager, too, deletes only Nodes that are not Ready.
func (f *Facts) heldLoss() bool { return f.Named && f.Cloud.Held != "" && f.NodeReady }

func groupFailure(b *v1alpha1.GroupBackoff) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("drover waits after a failure of this Machine's group (%s), and tries again automatically", b.Code)
}

// WhyNotDeleted returns why nothing of this Machine is deleted in the cloud now: the first reason that holds, for users, and the step
// that it leads to. It returns an empty reason when nothing is in the way, or when nothing is left to delete there.
//
// An API server that does not answer stops no deletion: one that has begun goes on as far as it can. A forced deletion gives up what it
// waits for; see [Next]. An earlier create whose outcome is not known is a reason that only the driver sees: until it is known, Release
// returns it as what it waits for.
func WhyNotDeleted(f *Facts) (Decision, string) {
	inCloud := f.CloudFinalizer && !f.Released
	return first([]obstacle{
		{!f.Deleting, Decision{}, "this Machine is not being deleted"},
		{f.Paused, Decision{Rest, ReasonPaused}, paused},
		{!f.AnyFinalizer, Decision{Rest, ReasonDone}, "this Machine has no finalizer of drover, so drover deletes nothing of it"},
		{f.LeaseOld, Decision{Wait, ReasonLeaseOld}, leaseTooOld},
		{f.Withheld != "", Decision{Hold, f.Withheld}, f.WithheldMessage},
		{f.DrainDue && !f.Drained, Decision{DrainNode, ReasonDraining}, "drover evicts the pods of the Node"},
		{f.DrainDue && f.Attached && !f.DetachOver, Decision{AwaitDetach, ReasonDetaching}, "volumes are still attached to the Node"},
		{!inCloud, Decision{}, ""},
		{f.CloudErr != nil, Decision{Fail, ReasonCloudUnusable}, messageOf(f.CloudErr)},
		{!f.Cloud.Synced, Decision{Wait, ReasonNotSynced}, notSynced},
		{f.hasServer() && !f.ServerFinalizer, Decision{LetGo, ReasonServerLeft}, "the finalizer " + v1alpha1.FinalizerServer + " of this Machine was removed, so its server is not deleted with it, but later as an orphan"},
		{f.hasServer() && f.BackingOff && !f.Force, Decision{AwaitRetry, ReasonDeletingServer}, "drover waits after a failed deletion of the server, and tries again automatically"},
		{f.hasServer(), Decision{}, ""},
		{f.Cloud.Unknown != "", Decision{Wait, ReasonServerUnknown}, f.Cloud.Unknown},
		{f.Cloud.Foreign == "" && f.ServerFinalizer && f.Named && !f.Cloud.Gone, Decision{Wait, ReasonServerUnknown}, serverUnknown},
		{f.BackingOff && !f.Force, Decision{AwaitRetry, ReasonReleasing}, "drover waits after a failed deletion of ports, floating IP or volumes, and tries again automatically"},
		{f.Cloud.Foreign != "", Decision{Release, ReasonServerLeft}, f.Cloud.Foreign},
	})
}

// hasServer reports whether the cloud shows a server of the Machine.
func (o *Observed) hasServer() bool { return o.Cloud.Server != nil }

// Why returns the reason for users of a decision that creates or deletes nothing; empty for other decisions.
func Why(f *Facts, d Decision) string {
	ask := WhyNoServer
	if f.Deleting {
		ask = WhyNotDeleted
	}
	if found, why := ask(f); found == d && d.Step != "" {
		return why
	}
	return ""
}

func codeOf(e *fault.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

func messageOf(e *fault.Error) string {
	if e == nil {
		return ""
	}
	return fault.Line(cmp.Or(e.Message, string(e.Code)))
}
