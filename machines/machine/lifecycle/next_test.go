package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// healthy are the facts of a joined Machine with an ACTIVE server; a row of the table changes some.
func healthy() Facts {
	return Facts{
		Observed: &Observed{
			Finalizers: true, AnyFinalizer: true, ServerFinalizer: true, CloudFinalizer: true, Named: true, HadServer: true, Placed: true, Joined: true,
			Node:  &corev1.Node{},
			Cloud: cloud.Facts{Synced: true, Server: &cloud.Server{ID: "s", State: cloud.ServerActive}},
		},
		Policy:   &Policy{},
		Progress: &Progress{Synced: true},
	}
}

// fresh are those of a Machine that nothing was made for.
func fresh() Facts {
	f := healthy()
	f.Named, f.HadServer, f.Joined, f.Synced, f.Node, f.Cloud.Server = false, false, false, false, nil, nil
	f.Permission.Allowed = true
	return f
}

// booting are those of a Machine whose server was recorded and has no node yet.
func booting(state cloud.ServerState) Facts {
	f := fresh()
	f.Named, f.HadServer, f.Cloud.Server = true, true, &cloud.Server{ID: "s", State: state}
	return f
}

// going are those of a Machine that is being deleted.
func going() Facts {
	f := healthy()
	f.Deleting, f.DrainDue = true, true
	return f
}

func TestNext(t *testing.T) {
	tests := []struct {
		name   string
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		{"a paused Machine is left alone", going, func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}},
		{"a Machine whose label names another program is left alone (MC-79)", fresh, func(f *Facts) { f.OtherController, f.Finalizers = true, false }, Decision{Rest, ReasonOtherController}},
		{"also when it has a node (MC-79)", healthy, func(f *Facts) { f.OtherController, f.Synced = true, false }, Decision{Rest, ReasonOtherController}},
		{"its deletion works (MC-79, and)", going, func(f *Facts) { f.Drained, f.OtherController = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"finalizers come before anything else (MC-39)", fresh, func(f *Facts) { f.Finalizers = false }, Decision{AddFinalizers, ReasonCreating}},
		{"a Machine without finalizers waits for its project, to be recorded with them (F-17)", fresh, func(f *Facts) { f.Finalizers, f.Cloud.Synced = false, false }, Decision{Wait, ReasonNotSynced}},
		{"a Machine that has a server gets its finalizers at once (F-17)", healthy, func(f *Facts) { f.Finalizers, f.Cloud.Synced = false, false }, Decision{AddFinalizers, ReasonCreating}},
		{"so does one whose cloud cannot be asked (F-17)", fresh, func(f *Facts) {
			f.Finalizers, f.CloudErr, f.Cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, Decision{AddFinalizers, ReasonCreating}},
		{"a project that became known later is recorded before anything is made (F-17)", fresh, func(f *Facts) { f.Placed = false }, Decision{RecordPlace, ReasonCreating}},
		{"an unusable spec fails with its code (MC-48)", fresh, func(f *Facts) { f.CloudErr = fault.New(fault.Invalid, fault.CodeInvalidSpec, "") }, Decision{Fail, "InvalidSpec"}},
		{"nothing is made before the inventory is complete", fresh, func(f *Facts) { f.Cloud.Synced = false }, Decision{Wait, ReasonNotSynced}},
		{"initializers hold the server back (MC-79)", fresh, func(f *Facts) { f.Initializing = true }, Decision{Wait, ReasonInitializers}},
		{"a back-off holds the server back, and its ports too (MC-49)", fresh, func(f *Facts) { f.BackingOff = true }, Decision{Wait, ReasonBackOff}},
		{"a shortage of the group holds the server back (CAPI-22)", fresh, func(f *Facts) { f.Permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}} }, Decision{Wait, ReasonGroupBackoff}},
		{"who tries for all of the group is let through", fresh, func(f *Facts) { f.Permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}, Allowed: true} }, Decision{MakeUserData, ReasonCreating}},
		{"while joins keep failing one at a time is tried (CAPI-26)", fresh, func(f *Facts) { f.Permission = backoff.Permission{JoinsFail: true} }, Decision{Wait, ReasonJoinsFail}},
		{"a lease that is too old makes nothing", fresh, func(f *Facts) { f.LeaseOld = true }, Decision{Wait, ReasonLeaseOld}},
		{"also when half of it is made", fresh, func(f *Facts) { f.UserData, f.Prepared, f.LeaseOld = true, true, true }, Decision{Wait, ReasonLeaseOld}},
		{"a lease that is too old hinders nobody who has a server", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.LeaseOld = true }, Decision{AwaitNode, ReasonWaitingForNode}},
		{"while an API server cannot be reached nothing is made (MCM-79)", fresh, func(f *Facts) { f.APIFrozen = true }, Decision{Wait, ReasonAPIUnreachable}},
		{"also when half of it is made (MCM-79)", fresh, func(f *Facts) { f.UserData, f.Prepared, f.APIFrozen = true, true, true }, Decision{Wait, ReasonAPIUnreachable}},
		{"a server that exists is recorded meanwhile (MCM-79)", fresh, func(f *Facts) { f.APIFrozen, f.Cloud.Server = true, &cloud.Server{State: cloud.ServerBuilding} }, Decision{RecordServer, ReasonServerBuilding}},
		{"a server whose node has not come is not given up meanwhile (MCM-79)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late, f.APIFrozen = true, true }, Decision{Wait, ReasonAPIUnreachable}},
		{"a deletion that runs goes on (MCM-79)", going, func(f *Facts) { f.APIFrozen, f.Drained = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"user data comes before what the server needs in the cloud", fresh, func(*Facts) {}, Decision{MakeUserData, ReasonCreating}},
		{"what the server needs comes before the server", fresh, func(f *Facts) { f.UserData = true }, Decision{Prepare, ReasonCreating}},
		{"then comes the server", fresh, func(f *Facts) { f.UserData, f.Prepared = true, true }, Decision{EnsureServer, ReasonCreating}},
		{"a server that a predecessor made is recorded, not made again (MCM-36, CAPI-18)", fresh, func(f *Facts) { f.Cloud.Server = &cloud.Server{State: cloud.ServerBuilding} }, Decision{RecordServer, ReasonServerBuilding}},
		{"a server in ERROR is replaced (MC-49, MCM-42)", func() Facts { return booting(cloud.ServerError) }, func(*Facts) {}, Decision{ReplaceServer, ReasonServerError}},
		{"a server in ERROR with a joined node is left to health", healthy, func(f *Facts) { f.Cloud.Server.State = cloud.ServerError }, Decision{Rest, ReasonJoined}},
		{"a server in ERROR whose node has come all the same is joined", func() Facts { return booting(cloud.ServerError) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"a server that belongs to another is left alone (F-1)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Foreign = nil, "another's" }, Decision{Wait, ReasonForeign}},
		{"a server of its own changes nothing while it names another's (F-1)", healthy, func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		{"nothing is concluded while nothing is known of the server (F-15)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Unknown = nil, "another project" }, Decision{Wait, ReasonServerUnknown}},
		{"nothing is made while nothing is known of the server (F-15)", fresh, func(f *Facts) { f.Cloud.Unknown = "another project" }, Decision{Wait, ReasonServerUnknown}},
		{"another server of the Machine is taken when the one it named is gone before it joined (MCM-40)", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Mismatched = true }, Decision{RecordServer, ReasonServerBuilding}},
		{"when it had joined, the Machine is lost (MC-66, and)", healthy, func(f *Facts) { f.Mismatched = true }, Decision{LoseServer, ReasonServerGone}},
		{"a building server is waited for", func() Facts { return booting(cloud.ServerBuilding) }, func(*Facts) {}, Decision{AwaitNode, ReasonServerBuilding}},
		{"an ACTIVE server's node is waited for", func() Facts { return booting(cloud.ServerActive) }, func(*Facts) {}, Decision{AwaitNode, ReasonWaitingForNode}},
		{"a node that is another's is not joined (MC-52)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Taken = "so" }, Decision{AwaitNode, ReasonNodeTaken}},
		{"a server that joins too late is given up (MC-57)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late = true }, Decision{GiveUp, ReasonJoinTimeout}},
		{"a node that came at the last moment is taken all the same", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late, f.Node = true, &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"a node joins though the list still shows its server building", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"a joined node is kept in sync (MC-55)", healthy, func(f *Facts) { f.Synced = false }, Decision{SyncNode, ReasonJoined}},
		{"a joined node is kept in sync without the cloud", healthy, func(f *Facts) {
			f.Synced, f.CloudErr, f.Cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, Decision{SyncNode, ReasonJoined}},
		{"at rest", healthy, func(*Facts) {}, Decision{Rest, ReasonJoined}},
		{"a missing Node of a living server is waited for", healthy, func(f *Facts) { f.Node = nil }, Decision{Wait, ReasonNodeMissing}},
		{"a Node that was deleted and has registered anew is taken again", healthy, func(f *Facts) { f.Reregistered = true }, Decision{JoinNode, ReasonJoined}},
		{"while too many servers are gone at once none counts as lost", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Gone, f.Cloud.Held = nil, true, "5 of 9" }, Decision{Wait, ReasonHeld}},
		{"a server that is merely not listed is not lost", healthy, func(f *Facts) { f.Cloud.Server = nil }, Decision{Wait, ReasonServerUnknown}},
		{"a server proven gone is lost (MC-66, CAPI-33)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Gone = nil, true }, Decision{LoseServer, ReasonServerGone}},
		{"a server that somebody deletes is waited for", healthy, func(f *Facts) { f.Cloud.Server.State = cloud.ServerDeleting }, Decision{Wait, ReasonServerDeleting}},

		{"deletion drains first (CAPI-37)", going, func(*Facts) {}, Decision{DrainNode, ReasonDraining}},
		{"a server whose provider ID was dropped is recorded again before its node is drained (F-5)", going, func(f *Facts) { f.Named = false }, Decision{RecordServer, ReasonDeletingServer}},
		{"a server without the finalizer is not recorded in deletion (F-5)", going, func(f *Facts) { f.Named, f.ServerFinalizer = false, false }, Decision{DrainNode, ReasonDraining}},
		{"a deletion that is withheld drains nothing (F-42)", going, func(f *Facts) { f.Withheld = ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		{"also when its node is empty and its server is next (F-42)", going, func(f *Facts) { f.Drained, f.Withheld = true, ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		{"also when only the finalizers are left (F-42)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.NodeGone, f.TokenGone, f.Withheld = false, true, true, true, ReasonKindBeingDeleted
		}, Decision{Hold, ReasonKindBeingDeleted}},
		{"also when it is forced (F-42)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudRefused, f.Withheld = true, true, true, ReasonKindBeingDeleted
		}, Decision{Hold, ReasonKindBeingDeleted}},
		{"then the server goes (MC-62)", going, func(f *Facts) { f.Drained = true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"without a node nothing is drained (MCM-54)", going, func(f *Facts) { f.Node, f.DrainDue = nil, false }, Decision{DeleteServer, ReasonDeletingServer}},
		{"a server that is still building is deleted (MCM-55)", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Deleting = true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"ports and floating IP go once the server is gone (CAPI-43, MCM-53)", going, func(f *Facts) { f.DrainDue, f.Cloud.Server, f.Cloud.Gone = false, nil, true }, Decision{Release, ReasonReleasing}},
		{"while its end is not proven nothing of it goes (MC-68)", going, func(f *Facts) { f.DrainDue, f.Cloud.Server = false, nil }, Decision{Wait, ReasonServerUnknown}},
		{"an incomplete inventory proves nothing", going, func(f *Facts) { f.DrainDue, f.Cloud = false, cloud.Facts{} }, Decision{Wait, ReasonNotSynced}},
		{"a Machine that never had a server releases what may be left", fresh, func(f *Facts) { f.Deleting = true }, Decision{Release, ReasonReleasing}},
		{"then the Node goes (MC-62)", going, func(f *Facts) { f.DrainDue, f.Released = false, true }, Decision{DeleteNode, ReasonDeletingNode}},
		{"then the token", going, func(f *Facts) { f.DrainDue, f.Released, f.NodeGone = false, true, true }, Decision{DeleteToken, ReasonDeletingNode}},
		{"then the finalizers (MCM-52)", going, func(f *Facts) { f.DrainDue, f.Released, f.NodeGone, f.TokenGone = false, true, true, true }, Decision{RemoveFinalizers, ReasonDone}},
		{"then nothing", going, func(f *Facts) { f.AnyFinalizer = false }, Decision{Rest, ReasonDone}},
		{"an unreadable spec without a server lets go (MC-65)", fresh, func(f *Facts) {
			f.Deleting, f.SpecUnreadable, f.CloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, Decision{LetGo, ReasonNothingWasMade}},
		{"an unreadable spec with a server does not let go", going, func(f *Facts) {
			f.Drained, f.SpecUnreadable, f.CloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"missing credentials are waited for (CAPI-45)", fresh, func(f *Facts) {
			f.Deleting, f.CloudErr = true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"then volumes have time to be detached (MC-61)", going, func(f *Facts) { f.Drained, f.Attached = true, true }, Decision{AwaitDetach, ReasonDetaching}},
		{"not for ever (MC-61, and)", going, func(f *Facts) { f.Drained, f.Attached, f.DetachOver = true, true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"a server that belongs to another is left alone, and what is the Machine's own is released (F-1)", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Foreign = false, nil, "another's"
		}, Decision{Release, ReasonServerLeft}},
		{"nothing is released while nothing is known of the server (F-15)", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Unknown = false, nil, "another project"
		}, Decision{Wait, ReasonServerUnknown}},
		{"by force a Machine goes although nothing is known of its server (F-15)", going, func(f *Facts) {
			f.DrainDue, f.Force, f.Cloud.Server, f.Cloud.Unknown = false, true, nil, "another project"
		}, Decision{LetGo, ReasonForced}},
		{"while too many servers are gone at once nothing is cleaned up", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Gone, f.Cloud.Held = false, nil, true, "5 of 9"
		}, Decision{Wait, ReasonHeld}},
		{"force asks for the server's end first (MC-65)", going, func(f *Facts) { f.Drained, f.Force = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"force does not wait for it (MC-65)", going, func(f *Facts) { f.Drained, f.Force, f.Cloud.Server.State = true, true, cloud.ServerDeleting }, Decision{LetGo, ReasonForced}},
		{"force lets go when the cloud refuses (MC-65)", going, func(f *Facts) { f.Drained, f.Force, f.CloudRefused = true, true, true }, Decision{LetGo, ReasonForced}},
		{"force lets go when the cloud cannot be asked (MC-65)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudErr = true, true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, Decision{LetGo, ReasonForced}},
		{"force does not let go of what drover has not listed yet (F-28)", going, func(f *Facts) { f.Drained, f.Force, f.Cloud = true, true, cloud.Facts{} }, Decision{Wait, ReasonNotSynced}},
		{"unless that takes too long (F-28)", going, func(f *Facts) { f.Drained, f.Force, f.ForcedDrainOver, f.Cloud = true, true, true, cloud.Facts{} }, Decision{LetGo, ReasonForced}},
		{"force waits for other calls of drover (F-28)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudErr = true, true, fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"but not for long (F-28)", going, func(f *Facts) {
			f.Drained, f.Force, f.ForceOver, f.CloudErr = true, true, true, fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "")
		}, Decision{LetGo, ReasonForced}},
		{"force lets go of a server that nobody can prove gone (MC-65)", going, func(f *Facts) { f.DrainDue, f.Force, f.Cloud.Server = false, true, nil }, Decision{LetGo, ReasonForced}},
		{"force still releases what a server that is gone has left (CAPI-43)", going, func(f *Facts) {
			f.DrainDue, f.Force, f.Cloud.Server, f.Cloud.Gone = false, true, nil, true
		}, Decision{Release, ReasonReleasing}},
		{"a dead node whose server is gone is put out of service before it goes (MCM-56)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.Unreachable = false, true, true
			f.Cloud.Server, f.Cloud.Gone = nil, true
		}, Decision{OutOfService, ReasonDeletingNode}},
		{"the Node of a server that is proven gone does not wait for what is left of the server (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Cloud.Server, f.Cloud.Gone = false, true, nil, true
		}, Decision{DeleteNode, ReasonDeletingNode}},
		{"a dead one is out of service first (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Unreachable, f.Cloud.Server, f.Cloud.Gone = false, true, true, nil, true
		}, Decision{OutOfService, ReasonDeletingNode}},
		{"then what is left is waited for (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.NodeGone, f.Cloud.Server, f.Cloud.Gone = false, true, true, nil, true
		}, Decision{Wait, ReasonReleasing}},
		{"the Node stays while the end of the server is not proven (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Named, f.Cloud.Server = false, true, false, nil
		}, Decision{Wait, ReasonReleasing}},
		{"force lets go of what is not released in time (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.CloudRefused, f.Force, f.ForceOver, f.Cloud.Server, f.Cloud.Gone = false, true, true, true, true, nil, true
		}, Decision{LetGo, ReasonForced}},
		{"force lets go of a server whose end the mass guard holds back, once its time is over (F-28)", going, func(f *Facts) {
			f.DrainDue, f.Force, f.ForceOver, f.Named, f.Cloud.Server, f.Cloud.Held = false, true, true, false, nil, "5 of 9"
		}, Decision{LetGo, ReasonForced}},
		{"a dead node is not put out of service once the time of a forced deletion is over (F-28)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.Unreachable, f.ForceOver, f.Cloud.Server, f.Cloud.Gone = false, true, true, true, nil, true
		}, Decision{DeleteNode, ReasonDeletingNode}},
		{"but not while its server may live (MCM-56)", going, func(f *Facts) { f.DrainDue, f.Released, f.Unreachable = false, true, true }, Decision{DeleteNode, ReasonDeletingNode}},
		{"without the server's finalizer the server is left alone (MC-67)", going, func(f *Facts) { f.Drained, f.ServerFinalizer = true, false }, Decision{LetGo, ReasonServerLeft}},
		{"without any cloud finalizer only the Node goes (MC-67)", going, func(f *Facts) { f.Drained, f.ServerFinalizer, f.CloudFinalizer = true, false, false }, Decision{DeleteNode, ReasonDeletingNode}},
		{"initializers do not hold a deletion up (MC-79)", going, func(f *Facts) { f.Drained, f.Initializing = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			if got := Next(&f); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
