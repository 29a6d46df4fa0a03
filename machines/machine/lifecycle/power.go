package lifecycle

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Start is the state of the start of a server that was shut down.
type Start string

// The states of a start.
const (
	// StartNotNeeded means that the server is not shut down, or its state is not known.
	StartNotNeeded Start = ""
	// StartRefrained means that an operator does not want drover to start the server.
	StartRefrained Start = "Refrained"
	// StartDue means that the cloud must now be asked to start the server.
	StartDue Start = "Due"
	// StartPending means that the cloud has been asked to start the server, and the server may still start.
	StartPending Start = "Pending"
	// StartOver means that the cloud was asked to start the server longer than StartTime ago, and the list of servers still
	// shows the server shut down.
	StartOver Start = "Over"
	// StartFailed means that the start has failed, and is not repeated.
	StartFailed Start = "Failed"
)

const (
	// StartTime is how long a server may take to become ACTIVE after drover has asked the cloud to start it.
	StartTime = time.Minute
	// StartUsedUp is how long the Node must have been Ready after a start before drover may start the same server again.
	StartUsedUp = time.Hour
)

// StartInput is the input of [JudgeStart].
type StartInput struct {
	// Cloud is what the cloud shows of the server.
	Cloud *cloud.Facts
	// Record is the start that drover has recorded; nil when no start is recorded.
	Record *v1alpha1.ServerStart
	// Unsent reports whether this process wrote the record, and has certainly not sent the request to the cloud.
	Unsent bool
	// Refrain reports whether an operator does not want drover to start the server.
	Refrain bool
	Now     time.Time
}

// JudgeStart returns the state of the server's start. A start that another process recorded counts as requested: that process
// may or may not have sent the request, and a server is started at most once. A recorded time that is in the future by more
// than StartTime comes from a wrong clock, and that start counts as over.
func JudgeStart(in StartInput) Start {
	server := in.Cloud.Server
	if server == nil || server.State != cloud.ServerStopped && server.State != cloud.ServerStarting {
		return StartNotNeeded
	}
	record := StartOf(server, in.Record)
	switch {
	case in.Refrain:
		return StartRefrained
	case record == nil && server.State == cloud.ServerStopped && in.Cloud.Outdated == "":
		return StartDue
	case record == nil:
		return StartNotNeeded
	case record.Failure != "":
		return StartFailed
	case in.Unsent && server.State == cloud.ServerStopped:
		return StartDue
	case in.Now.Sub(record.Time.Time).Abs() < StartTime:
		return StartPending
	}
	return StartOver
}

// StartOf returns the recorded start of the server; nil when no start is recorded, or when the record is about another
// server.
func StartOf(server *cloud.Server, record *v1alpha1.ServerStart) *v1alpha1.ServerStart {
	if server == nil || record == nil || record.Server != server.ID {
		return nil
	}
	return record
}

// mustStart reports whether the server must be started now. A server that has not become a Node in time is not started but
// given up.
func (f *Facts) mustStart() bool {
	return f.Start == StartDue && !f.StartHandled && !f.LeaseOld && (f.Joined || f.Node != nil || !f.Late)
}

// startEnded reports whether to ask the cloud why the server does not run although its start was requested.
func (f *Facts) startEnded() bool { return f.Start == StartOver && !f.StartHandled }

// shutDownForGood reports whether the Node may be put out of service before its pods are evicted: the last list shows the
// server shut down, and its start has failed. It returns false for a Node whose kubelet reports its state, Ready or not, because
// that kubelet runs somewhere, perhaps on another server with the Machine's owner tag.
func (f *Facts) shutDownForGood() bool {
	stopped := f.Cloud.Server != nil && f.Cloud.Server.State == cloud.ServerStopped && len(f.Cloud.Duplicates) == 0
	return f.Start == StartFailed && !f.ShutDownSeen && f.Node != nil && !f.NodeReports && stopped
}

// runsOutOfService reports whether the server runs although its Node was put out of service because the server could not be
// started.
func (f *Facts) runsOutOfService() bool {
	return f.StartFailed && f.NodeOutOfService && f.Node != nil && f.Cloud.Server != nil && f.Cloud.Server.State == cloud.ServerActive
}
