package lifecycle

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Start is how far the start of a server is that somebody has shut down.
type Start string

// The states of a start.
const (
	// StartNotNeeded: the server is not shut down, or that is not known.
	StartNotNeeded Start = ""
	// StartRefrained: people do not want drover to start the server.
	StartRefrained Start = "Refrained"
	// StartDue: the cloud was not asked for it yet.
	StartDue Start = "Due"
	// StartPending: the cloud was asked for it, and it may still come.
	StartPending Start = "Pending"
	// StartOver: it was asked for longer than StartTime ago, and the list of servers shows the server shut down.
	StartOver Start = "Over"
	// StartFailed: it has failed, and is not tried again.
	StartFailed Start = "Failed"
)

const (
	// StartTime is how long a server may take to be ACTIVE after drover has asked for its start.
	StartTime = time.Minute
	// StartUsedUp is how long the Node must have been Ready since then before drover starts the same server again.
	StartUsedUp = time.Hour
)

// StartInput is what JudgeStart decides by.
type StartInput struct {
	// Cloud is what the cloud shows.
	Cloud *cloud.Facts
	// Record is the start that drover has asked for; nil: none.
	Record *v1alpha1.ServerStart
	// Unsent: this process has made the record, and knows that the cloud has not heard of it.
	Unsent bool
	// Refrain: people do not want drover to start the server.
	Refrain bool
	Now     time.Time
}

// JudgeStart returns how far the start of the server is. A start that another process has recorded counts as asked for: whether
// that process came to send the request is not known, and a server is started at most once. A record that is further in the future
// than StartTime has a wrong clock's time and is over.
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

// StartOf returns the record when it is about that server, else nil.
func StartOf(server *cloud.Server, record *v1alpha1.ServerStart) *v1alpha1.ServerStart {
	if server == nil || record == nil || record.Server != server.ID {
		return nil
	}
	return record
}

// mustStart reports whether the server is to be started now. One that has not become a node in time is given up instead.
func (f *Facts) mustStart() bool {
	return f.Start == StartDue && !f.StartHandled && !f.LeaseOld && (f.Joined || f.Node != nil || !f.Late)
}

// startEnded reports whether the cloud is to be asked why the server does not run although it was started.
func (f *Facts) startEnded() bool { return f.Start == StartOver && !f.StartHandled }

// shutDownForGood reports whether the Node may be put out of service before its pods are evicted: its server is shut down by the last
// list of servers, and a start of it has failed. It returns false for a Node that is Ready: its kubelet runs somewhere, perhaps on
// another server with the Machine's mark.
func (f *Facts) shutDownForGood() bool {
	stopped := f.Cloud.Server != nil && f.Cloud.Server.State == cloud.ServerStopped && len(f.Cloud.Duplicates) == 0
	return f.Start == StartFailed && !f.ShutDownSeen && f.Node != nil && !f.NodeRuns && stopped
}

// runsOutOfService reports whether the server, which could not be started, runs although its Node was put out of service for that.
func (f *Facts) runsOutOfService() bool {
	return f.StartFailed && f.NodeOutOfService && f.Node != nil && f.Cloud.Server != nil && f.Cloud.Server.State == cloud.ServerActive
}
