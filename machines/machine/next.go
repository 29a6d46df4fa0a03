package machine

import "github.com/drover-project/drover/machines/cloud"

// step is the next thing to do for a Machine.
type step string

// The steps. A step either changes the facts, and the table is asked again, or ends the pass.
const (
	// rest: nothing to do until something changes.
	rest step = "Rest"
	// wait: something else must happen first; the reason says what.
	wait step = "Wait"

	addFinalizers    step = "AddFinalizers"
	recordPlace      step = "RecordPlace"
	fail             step = "Fail"
	makeUserData     step = "MakeUserData"
	ensurePorts      step = "EnsurePorts"
	ensureFloatingIP step = "EnsureFloatingIP"
	ensureServer     step = "EnsureServer"
	replaceServer    step = "ReplaceServer"
	recordServer     step = "RecordServer"
	awaitNode        step = "AwaitNode"
	giveUp           step = "GiveUp"
	joinNode         step = "JoinNode"
	syncNode         step = "SyncNode"
	loseServer       step = "LoseServer"

	hold             step = "Hold"
	drainNode        step = "DrainNode"
	awaitDetach      step = "AwaitDetach"
	deleteServer     step = "DeleteServer"
	release          step = "Release"
	outOfService     step = "OutOfService"
	deleteNode       step = "DeleteNode"
	deleteToken      step = "DeleteToken"
	letGo            step = "LetGo"
	removeFinalizers step = "RemoveFinalizers"
)

// Reasons, as conditions show them.
const (
	reasonPaused          = "Paused"
	reasonElsewhere       = "AnotherControllers"
	reasonInitializers    = "WaitingForInitializers"
	reasonNotSynced       = "CloudNotSynced"
	reasonServerUnknown   = "ServerUnknown"
	reasonHeld            = "TooManyServersGone"
	reasonForeign         = "ServerBelongsToAnother"
	reasonLeaseOld        = "LeaseTooOld"
	reasonBackOff         = "BackOff"
	reasonShortage        = "GroupBackOff"
	reasonJoinsFail       = "JoinsKeepFailing"
	reasonNoServer        = "NoServer"
	reasonCreating        = "CreatingServer"
	reasonServerBuilding  = "ServerBuilding"
	reasonServerError     = "ServerError"
	reasonServerDeleting  = "ServerDeleting"
	reasonServerGone      = "ServerGone"
	reasonServerStopped   = "ServerNotActive"
	reasonWaitingForNode  = "WaitingForNode"
	reasonNodeTaken       = "NodeBelongsToAnother"
	reasonJoinTimeout     = "JoinTimeout"
	reasonJoined          = "NodeJoined"
	reasonNodeMissing     = "NodeMissing"
	reasonDraining        = "DrainingNode"
	reasonDetaching       = "WaitingForVolumes"
	reasonDeletingServer  = "DeletingServer"
	reasonReleasing       = "ReleasingResources"
	reasonDeletingNode    = "DeletingNode"
	reasonDone            = "DeletionCompleted"
	reasonForced          = "ForceDelete"
	reasonLeftAlone       = "LeftAlone"
	reasonNothingWasMade  = "NothingWasMade"
	reasonServerLeft      = "ServerLeftAlone"
	reasonCloudUnusable   = "CloudNotUsable"
	reasonSpecInvalid     = "SpecInvalid"
	reasonSpecValid       = "SpecValid"
	reasonWithoutEffect   = "WithoutEffect"
	reasonServerActive    = "ServerActive"
	reasonNodeReady       = "NodeReady"
	reasonNodeNotReady    = "NodeNotReady"
	reasonNodeStarting    = "NodeStarting"
	reasonMachineDeleting = "MachineDeleting"

	reasonKindBeingDeleted = "KindBeingDeleted"
	reasonKindUnknown      = "KindUnknown"
)

// decision is a step and why.
type decision struct {
	step   step
	reason string
}

// next is the life of a Machine: the first row whose condition holds is taken.
func next(f *facts) decision {
	switch {
	case f.paused:
		return decision{rest, reasonPaused}
	case f.deleting:
		return nextOfDeletion(f)
	case f.elsewhere:
		return decision{rest, reasonElsewhere}
	case f.lacksFinalizers():
		return decision{addFinalizers, reasonCreating}
	case f.cloudErr != nil && f.joined && f.node != nil && !f.synced:
		return decision{syncNode, reasonJoined}
	case f.cloudErr != nil:
		return decision{fail, string(f.cloudErr.Code)}
	case !f.cloud.Synced:
		return decision{wait, reasonNotSynced}
	case f.cloud.Foreign != "":
		return decision{wait, reasonForeign}
	case f.cloud.Unknown != "":
		return decision{wait, reasonServerUnknown}
	case f.cloud.Server != nil:
		return nextOfServer(f)
	case f.named:
		return nextOfAbsence(f)
	}
	return nextOfCreation(f)
}

// lacksFinalizers reports whether the finalizers are to be written now. They wait while the project of a Machine that never had a
// server becomes known soon: nothing is made for it before, and they are one write with the record of the project.
func (f *facts) lacksFinalizers() bool {
	placePending := f.cloudErr == nil && !f.cloud.Synced && !f.hadServer
	return !f.finalizers && !placePending
}

// lostName reports whether another client has dropped spec.providerID of a Machine that has a server and a Node.
func (f *facts) lostName() bool {
	return !f.named && f.cloud.Server != nil && f.node != nil && f.serverFinalizer
}

// nextOfAbsence: a server was recorded, and it is not there. Absence is not proof.
func nextOfAbsence(f *facts) decision {
	switch {
	case f.cloud.Held != "":
		return decision{wait, reasonHeld}
	case f.cloud.Gone:
		return decision{loseServer, reasonServerGone}
	}
	return decision{wait, reasonServerUnknown}
}

// nextOfCreation: there is no server, and none was recorded.
func nextOfCreation(f *facts) decision {
	switch {
	case f.initializing:
		return decision{wait, reasonInitializers}
	case f.backingOff:
		return decision{wait, reasonBackOff}
	case f.permission.Backoff != nil && !f.permission.Allowed:
		return decision{wait, reasonShortage}
	case !f.permission.Allowed:
		return decision{wait, reasonJoinsFail}
	case f.leaseOld:
		return decision{wait, reasonLeaseOld}
	case !f.placed:
		return decision{recordPlace, reasonCreating}
	case !f.userData:
		return decision{makeUserData, reasonCreating}
	case !f.ports:
		return decision{ensurePorts, reasonCreating}
	case !f.floatingIP:
		return decision{ensureFloatingIP, reasonCreating}
	}
	return decision{ensureServer, reasonCreating}
}

// nextOfServer: there is a server.
func nextOfServer(f *facts) decision {
	state := f.cloud.Server.State
	switch {
	case f.strayed && f.joined:
		return decision{loseServer, reasonServerGone}
	case state == cloud.ServerError && !f.joined && f.node == nil:
		return decision{replaceServer, reasonServerError}
	case state == cloud.ServerDeleting:
		return decision{wait, reasonServerDeleting}
	case !f.named || f.strayed:
		return decision{recordServer, reasonServerBuilding}
	case f.node != nil:
		return nextOfNode(f)
	case f.joined:
		return decision{wait, reasonNodeMissing}
	}
	return nextOfJoin(f)
}

// nextOfNode: the server's node is there.
func nextOfNode(f *facts) decision {
	switch {
	case !f.joined || f.registeredAnew:
		return decision{joinNode, reasonJoined}
	case !f.synced:
		return decision{syncNode, reasonJoined}
	}
	return decision{rest, reasonJoined}
}

// nextOfJoin: the server is recorded, and no node has come.
func nextOfJoin(f *facts) decision {
	switch {
	case f.late:
		return decision{giveUp, reasonJoinTimeout}
	case f.taken != "":
		return decision{awaitNode, reasonNodeTaken}
	case f.cloud.Server.State == cloud.ServerBuilding:
		return decision{awaitNode, reasonServerBuilding}
	}
	return decision{awaitNode, reasonWaitingForNode}
}

// nextOfDeletion: the Machine is going. Drain, volumes, server, its ports and floating IP, Node, token, finalizers: in
// that order.
func nextOfDeletion(f *facts) decision {
	switch {
	case !f.anyFinalizer:
		return decision{rest, reasonDone}
	case f.withheld != "":
		return decision{hold, f.withheld}
	case f.lostName():
		return decision{recordServer, reasonDeletingServer}
	case f.drainDue && !f.drained:
		return decision{drainNode, reasonDraining}
	case f.drainDue && f.attached && !f.detachOver:
		return decision{awaitDetach, reasonDetaching}
	case !f.cloudFinalizer || f.released:
		return nextAfterCloud(f)
	case f.force && f.silent():
		return decision{letGo, reasonForced}
	}
	return nextInCloud(f)
}

// silent tells that the cloud does not say what there is, or does not do what it is asked for.
func (f *facts) silent() bool {
	switch server := f.cloud.Server; {
	case f.cloudErr != nil, !f.cloud.Synced, f.cloudRefused:
		return true
	case server != nil:
		return server.State == cloud.ServerDeleting
	case f.cloud.Unknown != "":
		return true
	case f.cloud.Foreign != "":
		return false
	}
	return f.named && !f.cloud.Gone
}

// nextInCloud: the node is empty, and something of the Machine may be left in the cloud.
func nextInCloud(f *facts) decision {
	switch {
	case f.cloudErr != nil && f.specUnreadable && !f.hadServer:
		return decision{letGo, reasonNothingWasMade}
	case f.cloudErr != nil:
		return decision{fail, reasonCloudUnusable}
	case !f.cloud.Synced:
		return decision{wait, reasonNotSynced}
	case f.cloud.Server != nil && !f.serverFinalizer:
		return decision{letGo, reasonServerLeft}
	case f.cloud.Server != nil:
		return decision{deleteServer, reasonDeletingServer}
	case f.cloud.Held != "":
		return decision{wait, reasonHeld}
	case f.cloud.Unknown != "":
		return decision{wait, reasonServerUnknown}
	case f.cloud.Foreign != "":
		return decision{release, reasonServerLeft}
	case f.serverFinalizer && f.named && !f.cloud.Gone:
		return decision{wait, reasonServerUnknown}
	}
	return decision{release, reasonReleasing}
}

// nextAfterCloud: nothing of the Machine is left in the cloud, or nothing there is ours to remove.
func nextAfterCloud(f *facts) decision {
	switch {
	case f.unreachable && f.serverGone && !f.nodeGone && !f.outOfService:
		return decision{outOfService, reasonDeletingNode}
	case !f.nodeGone:
		return decision{deleteNode, reasonDeletingNode}
	case !f.tokenGone:
		return decision{deleteToken, reasonDeletingNode}
	}
	return decision{removeFinalizers, reasonDone}
}
