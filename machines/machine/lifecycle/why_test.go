package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// reason is a case of a table of reasons: change makes the reason hold, and leaves the reasons below it as they are.
type reason struct {
	name   string
	change func(*Facts)
	want   Decision
	says   string
}

// inOrderOfReasons makes the reasons of a table hold one after the other, from the last to the first, and expects each to be returned
// although those below it hold, too. So it checks every reason and the whole order.
func inOrderOfReasons(t *testing.T, f Facts, ask func(*Facts) (Decision, string), reasons []reason) {
	t.Helper()
	if d, why := ask(&f); why != "" || d != (Decision{}) {
		t.Fatalf("without a reason: %v, %q", d, why)
	}
	for _, r := range slices.Backward(reasons) {
		t.Run(r.name+" (F-114)", func(t *testing.T) {
			r.change(&f)
			d, why := ask(&f)
			if d != r.want || !strings.Contains(why, r.says) || (why == "") != (r.says == "") {
				t.Errorf("got %v, %q; want %v, %q", d, why, r.want, r.says)
			}
			if next := Next(&f); d.Step != "" && d.Step != Release && next != d {
				t.Errorf("Next() = %v, want %v", next, d)
			}
			if r.says != "" && d.Step != "" && Why(&f, d) != why {
				t.Errorf("Why() = %q, want %q", Why(&f, d), why)
			}
		})
	}
}

func TestWhyAMachineGetsNoServer(t *testing.T) {
	inOrderOfReasons(t, fresh(), WhyNoServer, []reason{
		{"a paused Machine", func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}, "pauses this Machine"},
		{"a Machine that is being deleted", func(f *Facts) { f.Deleting = true }, Decision{}, "is being deleted"},
		{"a Machine of another controller", func(f *Facts) { f.OtherController = true }, Decision{Rest, ReasonOtherController}, "names another controller"},
		{"a spec or credentials that cannot be used", func(f *Facts) { f.CloudErr = fault.New(fault.Invalid, fault.CodeInvalidSpec, "flavor: is missing") }, Decision{Fail, "InvalidSpec"}, "flavor: is missing"},
		{"servers that have not been listed", func(f *Facts) { f.Cloud.Synced = false }, Decision{Wait, ReasonNotSynced}, "complete list"},
		{"a server of another owner", func(f *Facts) { f.Cloud.Foreign = "server s is another's" }, Decision{Wait, ReasonForeign}, "server s is another's"},
		{"a server in another project", func(f *Facts) { f.Cloud.Unknown = "the credentials are for project q" }, Decision{Wait, ReasonServerUnknown}, "project q"},
		{"a Machine with a server", func(f *Facts) { f.Cloud.Server = &cloud.Server{ID: "s"} }, Decision{}, "has a server"},
		{"a loss among many, of a Node that is Ready", func(f *Facts) { f.Cloud.Held, f.NodeReady = "5 of 9 servers are gone", true }, Decision{Wait, ReasonHeld}, "5 of 9"},
		{"a server that is gone", func(f *Facts) { f.Cloud.Gone = true }, Decision{LoseServer, ReasonServerGone}, "no second one"},
		{"a server that no list shows", func(f *Facts) { f.Named = true }, Decision{Wait, ReasonServerUnknown}, "does not prove"},
		{"initializers", func(f *Facts) { f.Initializing = true }, Decision{Wait, ReasonInitializers}, v1alpha1.AnnotationInitializers},
		{"a back-off of the Machine", func(f *Facts) { f.BackingOff = true }, Decision{Wait, ReasonBackOff}, "a failure of this Machine,"},
		{"a back-off of the group", func(f *Facts) { f.Permission.Backoff = &v1alpha1.GroupBackoff{Code: "NoValidHost"} }, Decision{Wait, ReasonGroupBackoff}, "group (NoValidHost)"},
		{"joins that keep failing", func(f *Facts) { f.Permission.Allowed = false }, Decision{Wait, ReasonJoinsFail}, "one server at a time"},
		{"an old lease", func(f *Facts) { f.LeaseOld = true }, Decision{Wait, ReasonLeaseOld}, "renewed its lease"},
		{"an API server that does not answer", func(f *Facts) { f.Stale = "the API server has not answered since noon" }, Decision{Wait, ReasonAPIUnreachable}, "since noon"},
		{"a driver that creates nothing now", func(f *Facts) {
			f.UserData, f.Refused = true, fault.New(fault.Quota, fault.CodeQuotaExceeded, "no more cores")
		}, Decision{Reserve, ReasonCreating}, "no more cores"},
	})
}

func TestWhyNothingOfAMachineIsDeleted(t *testing.T) {
	gone := going()
	gone.Drained, gone.Named, gone.Node, gone.Cloud.Server = true, false, nil, nil
	inOrderOfReasons(t, gone, WhyNotDeleted, []reason{
		{"a Machine that is not being deleted", func(f *Facts) { f.Paused, f.Deleting = false, false }, Decision{}, "is not being deleted"},
		{"a paused Machine", func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}, "pauses this Machine"},
		{"a Machine without finalizers of drover", func(f *Facts) { f.AnyFinalizer = false }, Decision{Rest, ReasonDone}, "no finalizer"},
		{"an old lease", func(f *Facts) { f.LeaseOld = true }, Decision{Wait, ReasonLeaseOld}, "renewed its lease"},
		{"a CRD that is being deleted", func(f *Facts) {
			f.Withheld, f.WithheldMessage = ReasonKindBeingDeleted, "machines.cluster.k8s.io is being deleted"
		}, Decision{Hold, ReasonKindBeingDeleted}, "machines.cluster.k8s.io"},
		{"pods on the Node", func(f *Facts) { f.Drained = false }, Decision{DrainNode, ReasonDraining}, "evicts the pods"},
		{"attached volumes", func(f *Facts) { f.Attached = true }, Decision{AwaitDetach, ReasonDetaching}, "volumes are still attached"},
		{"credentials that cannot be used", func(f *Facts) { f.CloudErr = fault.New(fault.Auth, fault.CodeUnauthorized, "signing in: 401") }, Decision{Fail, ReasonCloudUnusable}, "signing in: 401"},
		{"servers that have not been listed", func(f *Facts) { f.Cloud.Synced = false }, Decision{Wait, ReasonNotSynced}, "complete list"},
		{"a server whose finalizer was removed", func(f *Facts) { f.ServerFinalizer = false }, Decision{LetGo, ReasonServerLeft}, "was removed"},
		{"a back-off after a refused deletion of the server", func(f *Facts) { f.BackingOff = true }, Decision{AwaitRetry, ReasonDeletingServer}, "deletion of the server"},
		{"nothing, although the records disagree with the server that the cloud shows", func(f *Facts) { f.Cloud.Server, f.BackingOff = &cloud.Server{ID: "s"}, false }, Decision{}, ""},
		{"a server in another project", func(f *Facts) { f.Cloud.Unknown = "the credentials are for project q" }, Decision{Wait, ReasonServerUnknown}, "project q"},
		{"a server that no list shows", func(f *Facts) { f.Named, f.Cloud.Foreign = true, "" }, Decision{Wait, ReasonServerUnknown}, "does not prove"},
		{"a back-off after a refused deletion of ports", func(f *Facts) { f.BackingOff = true }, Decision{AwaitRetry, ReasonReleasing}, "deletion of ports"},
		{"a server of another owner", func(f *Facts) { f.Cloud.Foreign = "server s is another's" }, Decision{Release, ReasonServerLeft}, "server s is another's"},
	})
}
