package lifecycle

import (
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Step is the next step of a Machine.
type Step string

// The steps. A step either changes the facts, so that the table is consulted again, or ends the reconcile.
const (
	// Rest means that there is nothing to do until a fact changes.
	Rest Step = "Rest"
	// Wait means that something else must happen first. The reason says what.
	Wait Step = "Wait"

	AddFinalizers Step = "AddFinalizers"
	RecordPlace   Step = "RecordPlace"
	Fail          Step = "Fail"
	MakeUserData  Step = "MakeUserData"
	Reserve       Step = "Reserve"
	Prepare       Step = "Prepare"
	EnsureServer  Step = "EnsureServer"
	ReplaceServer Step = "ReplaceServer"
	RecordServer  Step = "RecordServer"
	StartServer   Step = "StartServer"
	EndStart      Step = "EndStart"
	AwaitNode     Step = "AwaitNode"
	GiveUp        Step = "GiveUp"
	JoinNode      Step = "JoinNode"
	SyncNode      Step = "SyncNode"
	LoseServer    Step = "LoseServer"

	Hold             Step = "Hold"
	ShutOffNode      Step = "ShutOffNode"
	ReturnNode       Step = "ReturnNode"
	DrainNode        Step = "DrainNode"
	AwaitDetach      Step = "AwaitDetach"
	AwaitRetry       Step = "AwaitRetry"
	DeleteServer     Step = "DeleteServer"
	Release          Step = "Release"
	OutOfService     Step = "OutOfService"
	DeleteNode       Step = "DeleteNode"
	DeleteToken      Step = "DeleteToken"
	LetGo            Step = "LetGo"
	RemoveFinalizers Step = "RemoveFinalizers"
)

// The reasons that conditions show.
const (
	ReasonPaused          = "Paused"
	ReasonOtherController = "AnotherControllers"
	ReasonInitializers    = "WaitingForInitializers"
	ReasonNotSynced       = "CloudNotSynced"
	ReasonServerUnknown   = "ServerUnknown"
	ReasonHeld            = "TooManyServersGone"
	ReasonForeign         = "ServerBelongsToAnother"
	ReasonLeaseOld        = "LeaseTooOld"
	ReasonAPIUnreachable  = "APIUnreachable"
	ReasonBackOff         = "BackOff"
	ReasonGroupBackoff    = "GroupBackOff"
	ReasonJoinsFail       = "JoinsKeepFailing"
	ReasonNoServer        = "NoServer"
	ReasonCreating        = "CreatingServer"
	ReasonServerBuilding  = "ServerBuilding"
	ReasonServerError     = "ServerError"
	ReasonServerDeleting  = "ServerDeleting"
	ReasonServerGone      = "ServerGone"
	ReasonServerStopped   = "ServerNotActive"
	ReasonServerStarting  = "ServerStarting"
	ReasonServerWontStart = "ServerWontStart"
	ReasonServerBusy      = "ServerBusy"
	ReasonServerStarted   = "ServerStarted"
	ReasonOutOfService    = "NodeOutOfService"
	ReasonWaitingForNode  = "WaitingForNode"
	ReasonNodeTaken       = "NodeBelongsToAnother"
	ReasonJoinTimeout     = "JoinTimeout"
	ReasonJoined          = "NodeJoined"
	ReasonNodeMissing     = "NodeMissing"
	ReasonDraining        = "DrainingNode"
	ReasonDetaching       = "WaitingForVolumes"
	ReasonDeletingServer  = "DeletingServer"
	ReasonReleasing       = "ReleasingResources"
	ReasonDeletingNode    = "DeletingNode"
	ReasonDone            = "DeletionCompleted"
	ReasonForced          = "ForceDelete"
	ReasonFinalizers      = "WaitingForFinalizers"
	ReasonFinalizerEnded  = "FinalizerRemoved"
	ReasonLeftAlone       = "LeftAlone"
	ReasonNothingWasMade  = "NothingWasMade"
	ReasonServerLeft      = "ServerLeftAlone"
	ReasonCloudUnusable   = "CloudNotUsable"
	ReasonSpecValid       = "SpecValid"
	ReasonWithoutEffect   = "WithoutEffect"
	ReasonServerActive    = "ServerActive"
	ReasonNodeReady       = "NodeReady"
	ReasonNodeNotReady    = "NodeNotReady"
	ReasonNodeStarting    = "NodeStarting"
	ReasonMachineDeleting = "MachineDeleting"

	// ReasonFactsUnread means that a reconcile could not read its facts, and that the condition had no reason before.
	ReasonFactsUnread = "FactsNotRead"
	// ReasonUnfinished means that a Machine is Ready, and that drover could not do something for it.
	ReasonUnfinished = "NotFinished"

	ReasonKindBeingDeleted = "KindBeingDeleted"
	ReasonKindUnknown      = "KindUnknown"
)

// Decision is a step together with its reason.
type Decision struct {
	Step   Step
	Reason string
}

// Next returns the next step of a Machine: the first row of the lifecycle table whose condition holds. The rows in which nothing is
// created are those of [WhyNoServer], and the rows in which nothing is deleted those of [WhyNotDeleted].
func Next(f *Facts) Decision {
	obstacle, _ := WhyNoServer(f)
	switch {
	case f.Deleting && !f.Paused:
		return nextOfDeletion(f)
	case f.Paused || f.OtherController:
		return obstacle
	case f.lacksFinalizers():
		return Decision{AddFinalizers, ReasonCreating}
	case f.CloudErr != nil && f.Joined && f.Node != nil && !f.Synced:
		return Decision{SyncNode, ReasonJoined}
	case obstacle.Step != "":
		return obstacle
	case f.Cloud.Server != nil:
		return nextOfServer(f)
	}
	return nextOfCreation(f)
}

// lacksFinalizers reports whether the finalizers must be written now. They are not written while a Machine has no server and
// its project is not known: nothing is created before the project is known, and a single write can then store the finalizers
// and the project.
func (f *Facts) lacksFinalizers() bool {
	placePending := f.CloudErr == nil && !f.Cloud.Synced && !f.HadServer
	return !f.Finalizers && !placePending
}

// lostName reports whether another client has removed spec.providerID from a Machine that has a server and a Node.
func (f *Facts) lostName() bool {
	return !f.Named && f.Cloud.Server != nil && f.Node != nil && f.ServerFinalizer
}

// nextOfCreation returns the next step when there is no server and nothing is in the way of one.
func nextOfCreation(f *Facts) Decision {
	switch {
	case !f.Placed:
		return Decision{RecordPlace, ReasonCreating}
	case !f.UserData:
		return Decision{MakeUserData, ReasonCreating}
	case !f.Reserved:
		return Decision{Reserve, ReasonCreating}
	case !f.Prepared:
		return Decision{Prepare, ReasonCreating}
	}
	return Decision{EnsureServer, ReasonCreating}
}

// nextOfServer returns the next step when there is a server.
func nextOfServer(f *Facts) Decision {
	state := f.Cloud.Server.State
	switch {
	case f.Mismatched && f.Joined:
		return Decision{LoseServer, ReasonServerGone}
	case state == cloud.ServerError && !f.Joined && f.Node == nil:
		return Decision{ReplaceServer, ReasonServerError}
	case state == cloud.ServerDeleting:
		return Decision{Wait, ReasonServerDeleting}
	case !f.Named || f.Mismatched:
		return Decision{RecordServer, ReasonServerBuilding}
	case f.mustStart():
		return Decision{StartServer, ReasonServerStarting}
	case f.startEnded():
		return Decision{EndStart, ReasonServerWontStart}
	case f.Node != nil:
		return nextOfNode(f)
	case f.Joined:
		return Decision{Wait, ReasonNodeMissing}
	}
	return nextOfJoin(f)
}

// nextOfNode returns the next step when the server's Node has registered.
func nextOfNode(f *Facts) Decision {
	switch {
	case !f.Joined || f.Reregistered:
		return Decision{JoinNode, ReasonJoined}
	case !f.Synced:
		return Decision{SyncNode, ReasonJoined}
	}
	return Decision{Rest, ReasonJoined}
}

// nextOfJoin returns the next step when the server is recorded and its Node has not registered.
func nextOfJoin(f *Facts) Decision {
	switch {
	case f.Late && f.Stale != "":
		return Decision{Wait, ReasonAPIUnreachable}
	case f.Late:
		return Decision{GiveUp, ReasonJoinTimeout}
	case f.Taken != "":
		return Decision{AwaitNode, ReasonNodeTaken}
	case f.Cloud.Server.State == cloud.ServerBuilding:
		return Decision{AwaitNode, ReasonServerBuilding}
	}
	return Decision{AwaitNode, ReasonWaitingForNode}
}

// nextOfDeletion returns the next step of a deletion. The order is: drain, volumes, server, the server's other resources,
// Node, token, finalizers. Once it is proven that the server is gone, the Node is deleted without waiting for the other
// resources, which may take as long as volumes.
func nextOfDeletion(f *Facts) Decision {
	obstacle, _ := WhyNotDeleted(f)
	switch {
	case !f.AnyFinalizer || f.LeaseOld || f.Withheld != "":
		return obstacle
	case f.lostName() && !f.ForceOver:
		return Decision{RecordServer, ReasonDeletingServer}
	case obstacle.Step == DrainNode:
		return nextOfDrain(f)
	case obstacle.Step == AwaitDetach:
		return obstacle
	case !f.CloudFinalizer || f.Released:
		return nextAfterCloud(f)
	case f.Force && f.cloudUnresponsive():
		return Decision{LetGo, ReasonForced}
	case f.Unreleased:
		return nextWhileReleasing(f)
	}
	return nextInCloud(f, obstacle)
}

// nextOfDrain returns the next step while the pods of the Node are to be evicted.
func nextOfDrain(f *Facts) Decision {
	switch {
	case f.shutDownForGood():
		return Decision{ShutOffNode, ReasonDraining}
	case f.runsOutOfService():
		return Decision{ReturnNode, ReasonDraining}
	}
	return Decision{DrainNode, ReasonDraining}
}

// cloudUnresponsive reports whether the cloud does not answer, or does not carry out a request. While a call only waits
// inside drover (at startup, or behind other calls), the cloud does not count as unresponsive until the time limit of a
// forced deletion has ended.
func (f *Facts) cloudUnresponsive() bool {
	switch server := f.Cloud.Server; {
	case f.CloudRefused:
		return true
	case f.CloudErr != nil && f.CloudErr.Code == fault.CodeWaitingForTurn:
		return f.ForceOver
	case f.CloudErr != nil && f.CloudErr.Code != fault.CodeUnsettled:
		return true
	case f.CloudErr != nil, !f.Cloud.Synced:
		// If the cloud answers, drover has read its servers within seconds. So the wait for them ends with the shorter time limit
		// of a forced deletion.
		return f.ForcedDrainOver
	case server != nil:
		return server.State == cloud.ServerDeleting
	case f.Cloud.Unknown != "":
		return true
	case f.Cloud.Foreign != "":
		return false
	}
	return f.Named && !f.Cloud.Gone
}

// nextInCloud returns the next step when the Node is empty and resources may be left in the cloud. obstacle is why nothing is deleted
// there now; zero when nothing is in the way.
func nextInCloud(f *Facts, obstacle Decision) Decision {
	switch {
	case f.CloudErr != nil && f.SpecUnreadable && !f.HadServer:
		return Decision{LetGo, ReasonNothingWasMade}
	case obstacle == Decision{AwaitRetry, ReasonReleasing} && f.nodeOutlivesServer():
		return nextOfNodeInDeletion(f)
	case obstacle.Step != "":
		return obstacle
	case f.Cloud.Server != nil:
		return Decision{DeleteServer, ReasonDeletingServer}
	}
	return Decision{Release, ReasonReleasing}
}

// nextAfterCloud returns the next step when no resource is left in the cloud that drover may delete.
func nextAfterCloud(f *Facts) Decision {
	switch {
	case !f.NodeGone:
		return nextOfNodeInDeletion(f)
	case !f.TokenGone:
		return Decision{DeleteToken, ReasonDeletingNode}
	}
	return Decision{RemoveFinalizers, ReasonDone}
}

// nextWhileReleasing returns the next step while resources are still being deleted in the cloud.
func nextWhileReleasing(f *Facts) Decision {
	if f.nodeOutlivesServer() {
		return nextOfNodeInDeletion(f)
	}
	return Decision{Wait, ReasonReleasing}
}

// nextOfNodeInDeletion returns the next step when the Machine's Node is to be deleted.
func nextOfNodeInDeletion(f *Facts) Decision {
	if f.Unreachable && f.serverGone() && !f.OutOfService && !f.ForceOver {
		return Decision{OutOfService, ReasonDeletingNode}
	}
	return Decision{DeleteNode, ReasonDeletingNode}
}
