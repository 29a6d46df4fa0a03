package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// healthy returns the facts of a joined Machine with an ACTIVE server. Each row of the table changes some of these facts.
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

// fresh returns the facts of a Machine for which drover has created nothing yet.
func fresh() Facts {
	f := healthy()
	f.Named, f.HadServer, f.Joined, f.Synced, f.Node, f.Cloud.Server = false, false, false, false, nil, nil
	f.Permission.Allowed = true
	return f
}

// booting returns the facts of a Machine whose server is recorded but has no Node yet.
func booting(state cloud.ServerState) Facts {
	f := fresh()
	f.Named, f.HadServer, f.Cloud.Server = true, true, &cloud.Server{ID: "s", State: state}
	return f
}

// going returns the facts of a Machine that is being deleted.
func going() Facts {
	f := healthy()
	f.Deleting, f.DrainDue = true, true
	return f
}

func TestWhatTheMachineControllerDoesNext(t *testing.T) {
	tests := []struct {
		name   string
		from   func() Facts
		change func(*Facts)
		want   Decision
	}{
		{"does nothing while the Machine is paused", going, func(f *Facts) { f.Paused = true }, Decision{Rest, ReasonPaused}},
		{"does nothing for a new Machine when the Machine's label names another controller (MC-79)", fresh, func(f *Facts) { f.OtherController, f.Finalizers = true, false }, Decision{Rest, ReasonOtherController}},
		{"does nothing for a Machine with a Node when the Machine's label names another controller (MC-79)", healthy, func(f *Facts) { f.OtherController, f.Synced = true, false }, Decision{Rest, ReasonOtherController}},
		{"continues a deletion although the Machine's label names another controller (MC-79)", going, func(f *Facts) { f.Drained, f.OtherController = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"adds the finalizers before any other step (MC-39)", fresh, func(f *Facts) { f.Finalizers = false }, Decision{AddFinalizers, ReasonCreating}},
		{"adds no finalizers before the Machine's cloud project is known, so that one write stores both (F-17)", fresh, func(f *Facts) { f.Finalizers, f.Cloud.Synced = false, false }, Decision{Wait, ReasonNotSynced}},
		{"adds the finalizers of a Machine that has a server even before the inventory is complete (F-17)", healthy, func(f *Facts) { f.Finalizers, f.Cloud.Synced = false, false }, Decision{AddFinalizers, ReasonCreating}},
		{"when the cloud cannot be asked, adds the finalizers without knowing the Machine's cloud project (F-17)", fresh, func(f *Facts) {
			f.Finalizers, f.CloudErr, f.Cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, Decision{AddFinalizers, ReasonCreating}},
		{"records the cloud project before it creates anything, when the Machine has finalizers and no recorded project (F-17)", fresh, func(f *Facts) { f.Placed = false }, Decision{RecordPlace, ReasonCreating}},
		{"reports a failure with code InvalidSpec when the spec is invalid (MC-48)", fresh, func(f *Facts) { f.CloudErr = fault.New(fault.Invalid, fault.CodeInvalidSpec, "") }, Decision{Fail, "InvalidSpec"}},
		{"creates nothing before the inventory is complete", fresh, func(f *Facts) { f.Cloud.Synced = false }, Decision{Wait, ReasonNotSynced}},
		{"creates nothing while machine-controller's annotation initializers on the Machine is not empty (MC-79)", fresh, func(f *Facts) { f.Initializing = true }, Decision{Wait, ReasonInitializers}},
		{"creates neither server nor ports during the Machine's back-off (MC-49)", fresh, func(f *Facts) { f.BackingOff = true }, Decision{Wait, ReasonBackOff}},
		{"creates nothing during the group's back-off (CAPI-22)", fresh, func(f *Facts) { f.Permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}} }, Decision{Wait, ReasonGroupBackoff}},
		{"begins to create a server during the group's back-off when the Machine is the group's probe", fresh, func(f *Facts) { f.Permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}, Allowed: true} }, Decision{MakeUserData, ReasonCreating}},
		{"waits while another Machine of the group tries to join, because earlier ones failed to join (CAPI-26)", fresh, func(f *Facts) { f.Permission = backoff.Permission{JoinsFail: true} }, Decision{Wait, ReasonJoinsFail}},
		{"creates nothing while drover has not renewed its lease in time", fresh, func(f *Facts) { f.LeaseOld = true }, Decision{Wait, ReasonLeaseOld}},
		{"creates no server for existing ports while drover has not renewed its lease in time", fresh, func(f *Facts) { f.UserData, f.Reserved, f.Prepared, f.LeaseOld = true, true, true, true }, Decision{Wait, ReasonLeaseOld}},
		{"waits for the Node of an existing server although drover has not renewed its lease in time", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.LeaseOld = true }, Decision{AwaitNode, ReasonWaitingForNode}},
		{"creates nothing while the control or target cluster's API server cannot be reached (MCM-79)", fresh, func(f *Facts) { f.Stale = "away" }, Decision{Wait, ReasonAPIUnreachable}},
		{"creates no server for existing ports while the control or target cluster's API server cannot be reached (MCM-79)", fresh, func(f *Facts) { f.UserData, f.Reserved, f.Prepared, f.Stale = true, true, true, "away" }, Decision{Wait, ReasonAPIUnreachable}},
		{"tries to record an existing server in the Machine even while the control or target cluster's API server cannot be reached (MCM-79)", fresh, func(f *Facts) { f.Stale, f.Cloud.Server = "away", &cloud.Server{State: cloud.ServerBuilding} }, Decision{RecordServer, ReasonServerBuilding}},
		{"while the control or target cluster's API server cannot be reached, keeps a server whose Node has not joined in time (MCM-79)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late, f.Stale = true, "away" }, Decision{Wait, ReasonAPIUnreachable}},
		{"continues a deletion even while the control or target cluster's API server cannot be reached (MCM-79)", going, func(f *Facts) { f.Stale, f.Drained = "away", true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"renders the user data before it creates ports", fresh, func(*Facts) {}, Decision{MakeUserData, ReasonCreating}},
		{"reserves quota before it creates ports", fresh, func(f *Facts) { f.UserData = true }, Decision{Reserve, ReasonCreating}},
		{"creates ports before the server", fresh, func(f *Facts) { f.UserData, f.Reserved = true, true }, Decision{Prepare, ReasonCreating}},
		{"creates the server after its ports", fresh, func(f *Facts) { f.UserData, f.Reserved, f.Prepared = true, true, true }, Decision{EnsureServer, ReasonCreating}},
		{"records a server that a previous leader created (MCM-36, CAPI-18)", fresh, func(f *Facts) { f.Cloud.Server = &cloud.Server{State: cloud.ServerBuilding} }, Decision{RecordServer, ReasonServerBuilding}},
		{"replaces a server in ERROR that has no Node (MC-49, MCM-42)", func() Facts { return booting(cloud.ServerError) }, func(*Facts) {}, Decision{ReplaceServer, ReasonServerError}},
		{"does nothing when a joined Node's server is in ERROR, because the health controller decides whether to replace the Machine", healthy, func(f *Facts) { f.Cloud.Server.State = cloud.ServerError }, Decision{Rest, ReasonJoined}},
		{"accepts the Node of a server in ERROR", func() Facts { return booting(cloud.ServerError) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"changes nothing while the server in the Machine's provider ID belongs to another Machine (F-1)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Foreign = nil, "another's" }, Decision{Wait, ReasonForeign}},
		{"changes nothing while the provider ID names another Machine's server, even if the Machine has a server of its own (F-1)", healthy, func(f *Facts) { f.Cloud.Foreign = "another's" }, Decision{Wait, ReasonForeign}},
		{"waits while it is not known whether the server of a Machine with a Node still exists (F-15)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Unknown = nil, "another project" }, Decision{Wait, ReasonServerUnknown}},
		{"creates nothing for a new Machine while it is not known whether the Machine already has a server (F-15)", fresh, func(f *Facts) { f.Cloud.Unknown = "another project" }, Decision{Wait, ReasonServerUnknown}},
		{"records the Machine's existing server when the server in its provider ID is gone and no Node has joined (MCM-40)", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Mismatched = true }, Decision{RecordServer, ReasonServerBuilding}},
		{"deletes a Machine with a Node when the server in its provider ID is gone, so that its set creates another Machine (MC-66)", healthy, func(f *Facts) { f.Mismatched = true }, Decision{LoseServer, ReasonServerGone}},
		{"waits for a server that is being built", func() Facts { return booting(cloud.ServerBuilding) }, func(*Facts) {}, Decision{AwaitNode, ReasonServerBuilding}},
		{"waits for the Node of an ACTIVE server", func() Facts { return booting(cloud.ServerActive) }, func(*Facts) {}, Decision{AwaitNode, ReasonWaitingForNode}},
		{"does not accept a Node of another Machine (MC-52)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Taken = "so" }, Decision{AwaitNode, ReasonNodeTaken}},
		{"gives up a server whose Node has not registered before the join deadline (MC-57)", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late = true }, Decision{GiveUp, ReasonJoinTimeout}},
		{"accepts a Node that registers at the join deadline", func() Facts { return booting(cloud.ServerActive) }, func(f *Facts) { f.Late, f.Node = true, &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"accepts the Node of a server that the list still shows as being built", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Node = &corev1.Node{} }, Decision{JoinNode, ReasonJoined}},
		{"syncs labels and taints to a joined Node (MC-55)", healthy, func(f *Facts) { f.Synced = false }, Decision{SyncNode, ReasonJoined}},
		{"syncs labels and taints to a joined Node while the cloud cannot be asked", healthy, func(f *Facts) {
			f.Synced, f.CloudErr, f.Cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, Decision{SyncNode, ReasonJoined}},
		{"does nothing when the Node has joined and needs no change", healthy, func(*Facts) {}, Decision{Rest, ReasonJoined}},
		{"waits for the Node to register again when the Node was deleted and its server still exists", healthy, func(f *Facts) { f.Node = nil }, Decision{Wait, ReasonNodeMissing}},
		{"accepts a Node that was deleted and has registered again", healthy, func(f *Facts) { f.Reregistered = true }, Decision{JoinNode, ReasonJoined}},
		{"keeps a Machine whose server is gone while too many are lost at once and its Node is Ready", healthy, func(f *Facts) {
			f.Cloud.Server, f.Cloud.Gone, f.Cloud.Held, f.NodeReady = nil, true, "5 of 9", true
		}, Decision{Wait, ReasonHeld}},
		{"deletes a Machine whose server is gone while too many are lost at once, when its Node is not Ready or gone (F-59)", healthy, func(f *Facts) {
			f.Cloud.Server, f.Cloud.Gone, f.Cloud.Held = nil, true, "5 of 9"
		}, Decision{LoseServer, ReasonServerGone}},
		{"waits when the server is missing from the list but not proven gone", healthy, func(f *Facts) { f.Cloud.Server = nil }, Decision{Wait, ReasonServerUnknown}},
		{"deletes a Machine whose server is proven gone, so that its set creates another Machine (MC-66, CAPI-33)", healthy, func(f *Facts) { f.Cloud.Server, f.Cloud.Gone = nil, true }, Decision{LoseServer, ReasonServerGone}},
		{"waits when another client has requested the deletion of the server, and the server still exists", healthy, func(f *Facts) { f.Cloud.Server.State = cloud.ServerDeleting }, Decision{Wait, ReasonServerDeleting}},

		{"begins a deletion with the drain (CAPI-37)", going, func(*Facts) {}, Decision{DrainNode, ReasonDraining}},
		{"restores a provider ID that a client dropped, and drains the Node only afterwards (F-5)", going, func(f *Facts) { f.Named = false }, Decision{RecordServer, ReasonDeletingServer}},
		{"in the deletion of a Machine without drover's finalizer for servers, does not undo a client's removal of the provider ID (F-5)", going, func(f *Facts) { f.Named, f.ServerFinalizer = false, false }, Decision{DrainNode, ReasonDraining}},
		{"does not drain the Node while the deletion of a CRD blocks the Machine's deletion (F-42)", going, func(f *Facts) { f.Withheld = ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		{"deletes no server while the deletion of a CRD blocks the Machine's deletion (F-42)", going, func(f *Facts) { f.Drained, f.Withheld = true, ReasonKindBeingDeleted }, Decision{Hold, ReasonKindBeingDeleted}},
		{"removes no finalizers while the deletion of a CRD blocks the Machine's deletion (F-42)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.NodeGone, f.TokenGone, f.Withheld = false, true, true, true, ReasonKindBeingDeleted
		}, Decision{Hold, ReasonKindBeingDeleted}},
		{"does nothing while the deletion of a CRD blocks the Machine's deletion, even a forced one (F-42)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudRefused, f.Withheld = true, true, true, ReasonKindBeingDeleted
		}, Decision{Hold, ReasonKindBeingDeleted}},
		{"deletes the server after the drain (MC-62)", going, func(f *Facts) { f.Drained = true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"deletes the server without a drain when there is no Node (MCM-54)", going, func(f *Facts) { f.Node, f.DrainDue = nil, false }, Decision{DeleteServer, ReasonDeletingServer}},
		{"deletes a server that is still being built (MCM-55)", func() Facts { return booting(cloud.ServerBuilding) }, func(f *Facts) { f.Deleting = true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"releases ports and floating IP once the server is gone (CAPI-43, MCM-53)", going, func(f *Facts) { f.DrainDue, f.Cloud.Server, f.Cloud.Gone = false, nil, true }, Decision{Release, ReasonReleasing}},
		{"releases no ports while the server is not proven gone (MC-68)", going, func(f *Facts) { f.DrainDue, f.Cloud.Server = false, nil }, Decision{Wait, ReasonServerUnknown}},
		{"releases no ports while the inventory is incomplete", going, func(f *Facts) { f.DrainDue, f.Cloud = false, cloud.Facts{} }, Decision{Wait, ReasonNotSynced}},
		{"releases the ports of a Machine that never had a server", fresh, func(f *Facts) { f.Deleting = true }, Decision{Release, ReasonReleasing}},
		{"deletes the Node after ports and floating IP are released (MC-62)", going, func(f *Facts) { f.DrainDue, f.Released = false, true }, Decision{DeleteNode, ReasonDeletingNode}},
		{"deletes the join token after the Node", going, func(f *Facts) { f.DrainDue, f.Released, f.NodeGone = false, true, true }, Decision{DeleteToken, ReasonDeletingNode}},
		{"removes the finalizers after the join token is deleted (MCM-52)", going, func(f *Facts) { f.DrainDue, f.Released, f.NodeGone, f.TokenGone = false, true, true, true }, Decision{RemoveFinalizers, ReasonDone}},
		{"does nothing after the finalizers are removed", going, func(f *Facts) { f.AnyFinalizer = false }, Decision{Rest, ReasonDone}},
		{"ends the deletion of a Machine that has an invalid spec and no server (MC-65)", fresh, func(f *Facts) {
			f.Deleting, f.SpecUnreadable, f.CloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, Decision{LetGo, ReasonNothingWasMade}},
		{"does not end the deletion of a Machine that has an invalid spec and a server", going, func(f *Facts) {
			f.Drained, f.SpecUnreadable, f.CloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"does not end a deletion while the credentials for the cloud are missing (CAPI-45)", fresh, func(f *Facts) {
			f.Deleting, f.CloudErr = true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"waits for volumes to be detached before it deletes the server (MC-61)", going, func(f *Facts) { f.Drained, f.Attached = true, true }, Decision{AwaitDetach, ReasonDetaching}},
		{"deletes the server when the time for detaching volumes is over (MC-61)", going, func(f *Facts) { f.Drained, f.Attached, f.DetachOver = true, true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"in a deletion, releases only the Machine's own resources when its provider ID names another Machine's server (F-1)", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Foreign = false, nil, "another's"
		}, Decision{Release, ReasonServerLeft}},
		{"releases no ports while the server's state is not known (F-15)", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Unknown = false, nil, "another project"
		}, Decision{Wait, ReasonServerUnknown}},
		{"ends a forced deletion although the server's state is not known (F-15)", going, func(f *Facts) {
			f.DrainDue, f.Force, f.Cloud.Server, f.Cloud.Unknown = false, true, nil, "another project"
		}, Decision{LetGo, ReasonForced}},
		{"releases the ports of a server that is gone however many are lost at once, because its Machine is to go (F-59)", going, func(f *Facts) {
			f.DrainDue, f.Cloud.Server, f.Cloud.Gone, f.Cloud.Held, f.NodeReady = false, nil, true, "5 of 9", true
		}, Decision{Release, ReasonReleasing}},
		{"requests the deletion of an existing server before it ends a forced deletion (MC-65)", going, func(f *Facts) { f.Drained, f.Force = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"ends a forced deletion while the server is still being deleted (MC-65)", going, func(f *Facts) { f.Drained, f.Force, f.Cloud.Server.State = true, true, cloud.ServerDeleting }, Decision{LetGo, ReasonForced}},
		{"ends a forced deletion although a call to the cloud has failed (MC-65)", going, func(f *Facts) { f.Drained, f.Force, f.CloudRefused = true, true, true }, Decision{LetGo, ReasonForced}},
		{"ends a forced deletion although the cloud cannot be asked (MC-65)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudErr = true, true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, Decision{LetGo, ReasonForced}},
		{"in a forced deletion, waits for the first lists of the cloud's resources (F-28)", going, func(f *Facts) { f.Drained, f.Force, f.Cloud = true, true, cloud.Facts{} }, Decision{Wait, ReasonNotSynced}},
		{"ends a forced deletion when the first lists of the cloud's resources take too long (F-28)", going, func(f *Facts) { f.Drained, f.Force, f.ForcedDrainOver, f.Cloud = true, true, true, cloud.Facts{} }, Decision{LetGo, ReasonForced}},
		{"in a forced deletion, waits for its turn while drover makes other calls to the cloud (F-28)", going, func(f *Facts) {
			f.Drained, f.Force, f.CloudErr = true, true, fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "")
		}, Decision{Fail, ReasonCloudUnusable}},
		{"ends a forced deletion when its turn to call the cloud does not come in time (F-28)", going, func(f *Facts) {
			f.Drained, f.Force, f.ForceOver, f.CloudErr = true, true, true, fault.New(fault.RateLimited, fault.CodeWaitingForTurn, "")
		}, Decision{LetGo, ReasonForced}},
		{"ends a forced deletion of a Machine although its server is not proven gone (MC-65)", going, func(f *Facts) { f.DrainDue, f.Force, f.Cloud.Server = false, true, nil }, Decision{LetGo, ReasonForced}},
		{"in a forced deletion, releases ports and floating IP of a server that is gone (CAPI-43)", going, func(f *Facts) {
			f.DrainDue, f.Force, f.Cloud.Server, f.Cloud.Gone = false, true, nil, true
		}, Decision{Release, ReasonReleasing}},
		{"puts an unreachable Node out of service before it deletes the Node (MCM-56)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.Unreachable = false, true, true
			f.Cloud.Server, f.Cloud.Gone = nil, true
		}, Decision{OutOfService, ReasonDeletingNode}},
		{"when the server is gone, deletes its Node even before its ports are released (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Cloud.Server, f.Cloud.Gone = false, true, nil, true
		}, Decision{DeleteNode, ReasonDeletingNode}},
		{"when the server is gone, puts its unreachable Node out of service even before its ports are released (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Unreachable, f.Cloud.Server, f.Cloud.Gone = false, true, true, nil, true
		}, Decision{OutOfService, ReasonDeletingNode}},
		{"after it has deleted the Node, waits for the release of ports and floating IP (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.NodeGone, f.Cloud.Server, f.Cloud.Gone = false, true, true, nil, true
		}, Decision{Wait, ReasonReleasing}},
		{"keeps the Node while the server is not proven gone (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.Named, f.Cloud.Server = false, true, false, nil
		}, Decision{Wait, ReasonReleasing}},
		{"ends a forced deletion when ports are not released in time (F-25)", going, func(f *Facts) {
			f.DrainDue, f.Unreleased, f.CloudRefused, f.Force, f.ForceOver, f.Cloud.Server, f.Cloud.Gone = false, true, true, true, true, nil, true
		}, Decision{LetGo, ReasonForced}},
		{"when a forced deletion's time is over, deletes an unreachable Node without first tainting it as out of service (F-28)", going, func(f *Facts) {
			f.DrainDue, f.Released, f.Unreachable, f.ForceOver, f.Cloud.Server, f.Cloud.Gone = false, true, true, true, nil, true
		}, Decision{DeleteNode, ReasonDeletingNode}},
		{"does not put an unreachable Node out of service while its server may run (MCM-56)", going, func(f *Facts) { f.DrainDue, f.Released, f.Unreachable = false, true, true }, Decision{DeleteNode, ReasonDeletingNode}},
		{"does not delete the server when the Machine lacks drover's finalizer for servers (MC-67)", going, func(f *Facts) { f.Drained, f.ServerFinalizer = true, false }, Decision{LetGo, ReasonServerLeft}},
		{"deletes only the Node when the Machine has none of drover's finalizers for cloud resources (MC-67)", going, func(f *Facts) { f.Drained, f.ServerFinalizer, f.CloudFinalizer = true, false, false }, Decision{DeleteNode, ReasonDeletingNode}},
		{"deletes no server during the Machine's back-off (F-62)", going, func(f *Facts) { f.Drained, f.BackingOff = true, true }, Decision{AwaitRetry, ReasonDeletingServer}},
		{"deletes the server during the Machine's back-off when the deletion is forced (F-62)", going, func(f *Facts) { f.Drained, f.BackingOff, f.Force = true, true, true }, Decision{DeleteServer, ReasonDeletingServer}},
		{"drains the Node during the Machine's back-off (F-62)", going, func(f *Facts) { f.BackingOff = true }, Decision{DrainNode, ReasonDraining}},
		{"releases no ports during the Machine's back-off (F-62)", fresh, func(f *Facts) { f.Deleting, f.BackingOff = true, true }, Decision{AwaitRetry, ReasonReleasing}},
		{"releases ports during the Machine's back-off when the deletion is forced (F-62)", fresh, func(f *Facts) { f.Deleting, f.BackingOff, f.Force = true, true, true }, Decision{Release, ReasonReleasing}},
		{"during the Machine's back-off, deletes the Node of a server that is gone (F-62)", going, func(f *Facts) {
			f.DrainDue, f.BackingOff, f.Cloud.Server, f.Cloud.Gone = false, true, nil, true
		}, Decision{DeleteNode, ReasonDeletingNode}},
		{"continues a deletion even while machine-controller's annotation initializers on the Machine is not empty (MC-79)", going, func(f *Facts) { f.Drained, f.Initializing = true, true }, Decision{DeleteServer, ReasonDeletingServer}},
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
