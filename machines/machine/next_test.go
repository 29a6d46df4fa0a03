package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// healthy are the facts of a joined Machine with an ACTIVE server; a row of the table changes some.
func healthy() facts {
	return facts{
		finalizers: true, anyFinalizer: true, serverFinalizer: true, cloudFinalizer: true, named: true, hadServer: true, placed: true, joined: true, synced: true,
		node:  &corev1.Node{},
		cloud: cloud.Facts{Synced: true, Server: &cloud.Server{ID: "s", State: cloud.ServerActive}},
	}
}

// fresh are those of a Machine that nothing was made for.
func fresh() facts {
	f := healthy()
	f.named, f.hadServer, f.joined, f.synced, f.node, f.cloud.Server = false, false, false, false, nil, nil
	f.permission.Allowed = true
	return f
}

// booting are those of a Machine whose server was recorded and has no node yet.
func booting(state cloud.ServerState) facts {
	f := fresh()
	f.named, f.hadServer, f.cloud.Server = true, true, &cloud.Server{ID: "s", State: state}
	return f
}

// going are those of a Machine that is being deleted.
func going() facts {
	f := healthy()
	f.deleting, f.drainDue = true, true
	return f
}

func TestNext(t *testing.T) {
	tests := []struct {
		name   string
		from   func() facts
		change func(*facts)
		want   decision
	}{
		{"a paused Machine is left alone", going, func(f *facts) { f.paused = true }, decision{rest, reasonPaused}},
		{"MC-79 a Machine whose label names another program is left alone", fresh, func(f *facts) { f.elsewhere, f.finalizers = true, false }, decision{rest, reasonElsewhere}},
		{"MC-79 also when it has a node", healthy, func(f *facts) { f.elsewhere, f.synced = true, false }, decision{rest, reasonElsewhere}},
		{"MC-79 and its deletion works", going, func(f *facts) { f.drained, f.elsewhere = true, true }, decision{deleteServer, reasonDeletingServer}},
		{"MC-39 finalizers come before anything else", fresh, func(f *facts) { f.finalizers = false }, decision{addFinalizers, reasonCreating}},
		{"a Machine without finalizers waits for its project, to be recorded with them (F-17)", fresh, func(f *facts) { f.finalizers, f.cloud.Synced = false, false }, decision{wait, reasonNotSynced}},
		{"a Machine that has a server gets its finalizers at once (F-17)", healthy, func(f *facts) { f.finalizers, f.cloud.Synced = false, false }, decision{addFinalizers, reasonCreating}},
		{"so does one whose cloud cannot be asked (F-17)", fresh, func(f *facts) {
			f.finalizers, f.cloudErr, f.cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, decision{addFinalizers, reasonCreating}},
		{"a project that became known later is recorded before anything is made (F-17)", fresh, func(f *facts) { f.placed = false }, decision{recordPlace, reasonCreating}},
		{"MC-48 an unusable spec fails with its code", fresh, func(f *facts) { f.cloudErr = fault.New(fault.Invalid, fault.CodeInvalidSpec, "") }, decision{fail, "InvalidSpec"}},
		{"nothing is made before the inventory is complete", fresh, func(f *facts) { f.cloud.Synced = false }, decision{wait, reasonNotSynced}},
		{"MC-79 initializers hold the server back", fresh, func(f *facts) { f.initializing = true }, decision{wait, reasonInitializers}},
		{"MC-49 a back-off holds the server back, and its ports too", fresh, func(f *facts) { f.backingOff = true }, decision{wait, reasonBackOff}},
		{"CAPI-22 a shortage of the group holds the server back", fresh, func(f *facts) { f.permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}} }, decision{wait, reasonShortage}},
		{"who tries for all of the group is let through", fresh, func(f *facts) { f.permission = backoff.Permission{Backoff: &v1alpha1.GroupBackoff{}, Allowed: true} }, decision{makeUserData, reasonCreating}},
		{"CAPI-26 while joins keep failing one at a time is tried", fresh, func(f *facts) { f.permission = backoff.Permission{JoinsFail: true} }, decision{wait, reasonJoinsFail}},
		{"a lease that is too old makes nothing", fresh, func(f *facts) { f.leaseOld = true }, decision{wait, reasonLeaseOld}},
		{"also when half of it is made", fresh, func(f *facts) { f.userData, f.ports, f.floatingIP, f.leaseOld = true, true, true, true }, decision{wait, reasonLeaseOld}},
		{"a lease that is too old hinders nobody who has a server", func() facts { return booting(cloud.ServerActive) }, func(f *facts) { f.leaseOld = true }, decision{awaitNode, reasonWaitingForNode}},
		{"user data comes before ports", fresh, func(*facts) {}, decision{makeUserData, reasonCreating}},
		{"ports come before the floating IP", fresh, func(f *facts) { f.userData = true }, decision{ensurePorts, reasonCreating}},
		{"the floating IP comes before the server", fresh, func(f *facts) { f.userData, f.ports = true, true }, decision{ensureFloatingIP, reasonCreating}},
		{"then comes the server", fresh, func(f *facts) { f.userData, f.ports, f.floatingIP = true, true, true }, decision{ensureServer, reasonCreating}},
		{"MCM-36 CAPI-18 a server that a predecessor made is recorded, not made again", fresh, func(f *facts) { f.cloud.Server = &cloud.Server{State: cloud.ServerBuilding} }, decision{recordServer, reasonServerBuilding}},
		{"MC-49 MCM-42 a server in ERROR is replaced", func() facts { return booting(cloud.ServerError) }, func(*facts) {}, decision{replaceServer, reasonServerError}},
		{"a server in ERROR with a joined node is left to health", healthy, func(f *facts) { f.cloud.Server.State = cloud.ServerError }, decision{rest, reasonJoined}},
		{"a server in ERROR whose node has come all the same is joined", func() facts { return booting(cloud.ServerError) }, func(f *facts) { f.node = &corev1.Node{} }, decision{joinNode, reasonJoined}},
		{"a server that belongs to another is left alone (F-1)", healthy, func(f *facts) { f.cloud.Server, f.cloud.Foreign = nil, "another's" }, decision{wait, reasonForeign}},
		{"a server of its own changes nothing while it names another's (F-1)", healthy, func(f *facts) { f.cloud.Foreign = "another's" }, decision{wait, reasonForeign}},
		{"nothing is concluded while nothing is known of the server (F-15)", healthy, func(f *facts) { f.cloud.Server, f.cloud.Unknown = nil, "another project" }, decision{wait, reasonServerUnknown}},
		{"nothing is made while nothing is known of the server (F-15)", fresh, func(f *facts) { f.cloud.Unknown = "another project" }, decision{wait, reasonServerUnknown}},
		{"MCM-40 another server of the Machine is taken when the one it named is gone before it joined", func() facts { return booting(cloud.ServerBuilding) }, func(f *facts) { f.strayed = true }, decision{recordServer, reasonServerBuilding}},
		{"MC-66 and when it had joined, the Machine is lost", healthy, func(f *facts) { f.strayed = true }, decision{loseServer, reasonServerGone}},
		{"a building server is waited for", func() facts { return booting(cloud.ServerBuilding) }, func(*facts) {}, decision{awaitNode, reasonServerBuilding}},
		{"an ACTIVE server's node is waited for", func() facts { return booting(cloud.ServerActive) }, func(*facts) {}, decision{awaitNode, reasonWaitingForNode}},
		{"MC-52 a node that is another's is not joined", func() facts { return booting(cloud.ServerActive) }, func(f *facts) { f.taken = "so" }, decision{awaitNode, reasonNodeTaken}},
		{"MC-57 a server that joins too late is given up", func() facts { return booting(cloud.ServerActive) }, func(f *facts) { f.late = true }, decision{giveUp, reasonJoinTimeout}},
		{"a node that came at the last moment is taken all the same", func() facts { return booting(cloud.ServerActive) }, func(f *facts) { f.late, f.node = true, &corev1.Node{} }, decision{joinNode, reasonJoined}},
		{"a node joins though the list still shows its server building", func() facts { return booting(cloud.ServerBuilding) }, func(f *facts) { f.node = &corev1.Node{} }, decision{joinNode, reasonJoined}},
		{"MC-55 a joined node is kept in sync", healthy, func(f *facts) { f.synced = false }, decision{syncNode, reasonJoined}},
		{"a joined node is kept in sync without the cloud", healthy, func(f *facts) {
			f.synced, f.cloudErr, f.cloud = false, fault.New(fault.Auth, fault.CodeUnauthorized, ""), cloud.Facts{}
		}, decision{syncNode, reasonJoined}},
		{"at rest", healthy, func(*facts) {}, decision{rest, reasonJoined}},
		{"a missing Node of a living server is waited for", healthy, func(f *facts) { f.node = nil }, decision{wait, reasonNodeMissing}},
		{"a Node that was deleted and has registered anew is taken again", healthy, func(f *facts) { f.registeredAnew = true }, decision{joinNode, reasonJoined}},
		{"while too many servers are gone at once none counts as lost", healthy, func(f *facts) { f.cloud.Server, f.cloud.Gone, f.cloud.Held = nil, true, "5 of 9" }, decision{wait, reasonHeld}},
		{"a server that is merely not listed is not lost", healthy, func(f *facts) { f.cloud.Server = nil }, decision{wait, reasonServerUnknown}},
		{"MC-66 CAPI-33 a server proven gone is lost", healthy, func(f *facts) { f.cloud.Server, f.cloud.Gone = nil, true }, decision{loseServer, reasonServerGone}},
		{"a server that somebody deletes is waited for", healthy, func(f *facts) { f.cloud.Server.State = cloud.ServerDeleting }, decision{wait, reasonServerDeleting}},

		{"CAPI-37 deletion drains first", going, func(*facts) {}, decision{drainNode, reasonDraining}},
		{"a server whose provider ID was dropped is recorded again before its node is drained (F-5)", going, func(f *facts) { f.named = false }, decision{recordServer, reasonDeletingServer}},
		{"a server without the finalizer is not recorded in deletion (F-5)", going, func(f *facts) { f.named, f.serverFinalizer = false, false }, decision{drainNode, reasonDraining}},
		{"a deletion that is withheld drains nothing (F-42)", going, func(f *facts) { f.withheld = reasonKindBeingDeleted }, decision{hold, reasonKindBeingDeleted}},
		{"also when its node is empty and its server is next (F-42)", going, func(f *facts) { f.drained, f.withheld = true, reasonKindBeingDeleted }, decision{hold, reasonKindBeingDeleted}},
		{"also when only the finalizers are left (F-42)", going, func(f *facts) {
			f.drainDue, f.released, f.nodeGone, f.tokenGone, f.withheld = false, true, true, true, reasonKindBeingDeleted
		}, decision{hold, reasonKindBeingDeleted}},
		{"also when it is forced (F-42)", going, func(f *facts) {
			f.drained, f.force, f.cloudRefused, f.withheld = true, true, true, reasonKindBeingDeleted
		}, decision{hold, reasonKindBeingDeleted}},
		{"MC-62 then the server goes", going, func(f *facts) { f.drained = true }, decision{deleteServer, reasonDeletingServer}},
		{"MCM-54 without a node nothing is drained", going, func(f *facts) { f.node, f.drainDue = nil, false }, decision{deleteServer, reasonDeletingServer}},
		{"MCM-55 a server that is still building is deleted", func() facts { return booting(cloud.ServerBuilding) }, func(f *facts) { f.deleting = true }, decision{deleteServer, reasonDeletingServer}},
		{"CAPI-43 MCM-53 ports and floating IP go once the server is gone", going, func(f *facts) { f.drainDue, f.cloud.Server, f.cloud.Gone = false, nil, true }, decision{release, reasonReleasing}},
		{"MC-68 while its end is not proven nothing of it goes", going, func(f *facts) { f.drainDue, f.cloud.Server = false, nil }, decision{wait, reasonServerUnknown}},
		{"an incomplete inventory proves nothing", going, func(f *facts) { f.drainDue, f.cloud = false, cloud.Facts{} }, decision{wait, reasonNotSynced}},
		{"a Machine that never had a server releases what may be left", fresh, func(f *facts) { f.deleting = true }, decision{release, reasonReleasing}},
		{"MC-62 then the Node goes", going, func(f *facts) { f.drainDue, f.released = false, true }, decision{deleteNode, reasonDeletingNode}},
		{"then the token", going, func(f *facts) { f.drainDue, f.released, f.nodeGone = false, true, true }, decision{deleteToken, reasonDeletingNode}},
		{"MCM-52 then the finalizers", going, func(f *facts) { f.drainDue, f.released, f.nodeGone, f.tokenGone = false, true, true, true }, decision{removeFinalizers, reasonDone}},
		{"then nothing", going, func(f *facts) { f.anyFinalizer = false }, decision{rest, reasonDone}},
		{"MC-65 an unreadable spec without a server lets go", fresh, func(f *facts) {
			f.deleting, f.specUnreadable, f.cloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, decision{letGo, reasonNothingWasMade}},
		{"an unreadable spec with a server does not let go", going, func(f *facts) {
			f.drained, f.specUnreadable, f.cloudErr = true, true, fault.New(fault.Invalid, fault.CodeInvalidSpec, "")
		}, decision{fail, reasonCloudUnusable}},
		{"CAPI-45 missing credentials are waited for", fresh, func(f *facts) {
			f.deleting, f.cloudErr = true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, decision{fail, reasonCloudUnusable}},
		{"MC-61 then volumes have time to be detached", going, func(f *facts) { f.drained, f.attached = true, true }, decision{awaitDetach, reasonDetaching}},
		{"MC-61 and not for ever", going, func(f *facts) { f.drained, f.attached, f.detachOver = true, true, true }, decision{deleteServer, reasonDeletingServer}},
		{"a server that belongs to another is left alone, and what is the Machine's own is released (F-1)", going, func(f *facts) {
			f.drainDue, f.cloud.Server, f.cloud.Foreign = false, nil, "another's"
		}, decision{release, reasonServerLeft}},
		{"nothing is released while nothing is known of the server (F-15)", going, func(f *facts) {
			f.drainDue, f.cloud.Server, f.cloud.Unknown = false, nil, "another project"
		}, decision{wait, reasonServerUnknown}},
		{"by force a Machine goes although nothing is known of its server (F-15)", going, func(f *facts) {
			f.drainDue, f.force, f.cloud.Server, f.cloud.Unknown = false, true, nil, "another project"
		}, decision{letGo, reasonForced}},
		{"while too many servers are gone at once nothing is cleaned up", going, func(f *facts) {
			f.drainDue, f.cloud.Server, f.cloud.Gone, f.cloud.Held = false, nil, true, "5 of 9"
		}, decision{wait, reasonHeld}},
		{"MC-65 force asks for the server's end first", going, func(f *facts) { f.drained, f.force = true, true }, decision{deleteServer, reasonDeletingServer}},
		{"MC-65 force does not wait for it", going, func(f *facts) { f.drained, f.force, f.cloud.Server.State = true, true, cloud.ServerDeleting }, decision{letGo, reasonForced}},
		{"MC-65 force lets go when the cloud refuses", going, func(f *facts) { f.drained, f.force, f.cloudRefused = true, true, true }, decision{letGo, reasonForced}},
		{"MC-65 force lets go when the cloud cannot be asked", going, func(f *facts) {
			f.drained, f.force, f.cloudErr = true, true, fault.New(fault.Auth, fault.CodeCredentialsMissing, "")
		}, decision{letGo, reasonForced}},
		{"MC-65 force lets go of a server that nobody can prove gone", going, func(f *facts) { f.drainDue, f.force, f.cloud.Server = false, true, nil }, decision{letGo, reasonForced}},
		{"CAPI-43 force still releases what a server that is gone has left", going, func(f *facts) {
			f.drainDue, f.force, f.cloud.Server, f.cloud.Gone = false, true, nil, true
		}, decision{release, reasonReleasing}},
		{"MCM-56 a dead node whose server is gone is put out of service before it goes", going, func(f *facts) {
			f.drainDue, f.released, f.unreachable, f.serverGone = false, true, true, true
		}, decision{outOfService, reasonDeletingNode}},
		{"MCM-56 but not while its server may live", going, func(f *facts) { f.drainDue, f.released, f.unreachable = false, true, true }, decision{deleteNode, reasonDeletingNode}},
		{"MC-67 without the server's finalizer the server is left alone", going, func(f *facts) { f.drained, f.serverFinalizer = true, false }, decision{letGo, reasonServerLeft}},
		{"MC-67 without any cloud finalizer only the Node goes", going, func(f *facts) { f.drained, f.serverFinalizer, f.cloudFinalizer = true, false, false }, decision{deleteNode, reasonDeletingNode}},
		{"MC-79 initializers do not hold a deletion up", going, func(f *facts) { f.drained, f.initializing = true, true }, decision{deleteServer, reasonDeletingServer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			if got := next(&f); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
