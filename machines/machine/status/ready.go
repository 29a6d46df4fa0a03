package status

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
)

// serverReady returns condition ServerReady. If the Machine waits for the server's state to change, the message also explains why
// the cloud's data is old.
func (in *Input) serverReady() Verdict {
	v := in.serverState()
	if v.Status != corev1.ConditionTrue {
		v.Message = in.withOutdated(v.Message)
	}
	return v
}

// withOutdated adds to a message why the cloud's data is old.
func (in *Input) withOutdated(message string) string {
	return join(message, in.Facts.Cloud.Outdated)
}

// serverState returns a condition for the state of the server in the cloud's last lists.
func (in *Input) serverState() Verdict {
	server := in.Facts.Cloud.Server
	if server == nil {
		return in.serverAbsent()
	}
	switch server.State {
	case cloud.ServerActive:
		if server.Busy != "" && in.Facts.Joined && !nodes.Runs(in.Facts.Node) {
			return in.busy(server)
		}
		return Verdict{corev1.ConditionTrue, lifecycle.ReasonServerActive, ""}
	case cloud.ServerBuilding:
		if nodes.Runs(in.Facts.Node) {
			// The Node is Ready, so the list of servers is out of date, and the next list will show the server as ACTIVE. If the status
			// is True now, that list causes no write.
			return Verdict{corev1.ConditionTrue, lifecycle.ReasonServerActive, ""}
		}
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerBuilding, ""}
	case cloud.ServerDeleting:
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerDeleting, ""}
	case cloud.ServerError:
		message := "server " + server.ID + " is in " + server.Status
		if server.Fault != nil {
			message = fault.Line(server.Fault.Message)
		}
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerError, message}
	case cloud.ServerStopped, cloud.ServerStarting:
		return in.shutDown(server)
	}
	if server.Busy != "" {
		return in.busy(server)
	}
	return Verdict{corev1.ConditionUnknown, lifecycle.ReasonServerStopped, fmt.Sprintf(
		"server %s is in state %s in the cloud, which drover does not change", server.ID, server.Status)}
}

// serverAbsent returns condition ServerReady when no server is known.
func (in *Input) serverAbsent() Verdict {
	f := in.Facts
	switch {
	case f.Cloud.Foreign != "":
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonForeign, f.Cloud.Foreign}
	case f.Cloud.Unknown != "":
		return Verdict{corev1.ConditionUnknown, lifecycle.ReasonServerUnknown, f.Cloud.Unknown}
	case in.Last.Reason == lifecycle.ReasonHeld:
		return Verdict{corev1.ConditionUnknown, lifecycle.ReasonHeld, f.Cloud.Held}
	case f.Cloud.Gone:
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerGone, in.message()}
	case in.Last.Step == lifecycle.Fail && f.HadServer:
		return Verdict{corev1.ConditionUnknown, string(in.Failure.Code), fault.Line(in.Failure.Message)}
	case f.Named && !f.Deleting:
		return Verdict{corev1.ConditionUnknown, lifecycle.ReasonServerUnknown, "no list of the cloud shows the server, which does not prove that it is gone"}
	}
	return Verdict{corev1.ConditionFalse, ptr.Deref(in.Machine.Status.ErrorReason, lifecycle.ReasonNoServer), ptr.Deref(in.Machine.Status.ErrorMessage, in.message())}
}

// nodeReady returns condition Ready. It is False until the first start of the Node is complete; then it follows the Node's
// Ready condition (MC-59).
func (in *Input) nodeReady() Verdict {
	f := in.Facts
	if f.Node == nil {
		switch {
		case f.Deleting:
			return Verdict{corev1.ConditionFalse, lifecycle.ReasonMachineDeleting, ""}
		case f.Joined:
			return Verdict{corev1.ConditionUnknown, lifecycle.ReasonNodeMissing, in.Detail}
		case f.ServerUnseen():
			return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerUnknown, in.message()}
		case f.Cloud.Server == nil:
			return Verdict{corev1.ConditionFalse, lifecycle.ReasonNoServer, ptr.Deref(in.Machine.Status.ErrorMessage, in.message())}
		}
		return Verdict{corev1.ConditionFalse, in.Last.Reason, in.message()}
	}
	if !f.HasStarted() {
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonNodeStarting, in.startMessage()}
	}
	ready := nodes.Ready(f.Node)
	switch {
	case ready == nil:
		return Verdict{corev1.ConditionUnknown, lifecycle.ReasonNodeNotReady, "the Node reports no Ready condition"}
	case ready.Status == corev1.ConditionTrue:
		return Verdict{corev1.ConditionTrue, lifecycle.ReasonNodeReady, ""}
	}
	return Verdict{ready.Status, lifecycle.ReasonNodeNotReady, fault.Line(ready.Reason + ": " + ready.Message)}
}

// startMessage returns what the Node lacks to complete its first start, as one line, because a kubelet chooses some of its words. In a reconcile that did not sync the Node, it is
// computed from the Node alone.
func (in *Input) startMessage() string {
	awaited := in.Awaited
	if len(awaited) == 0 {
		awaited = in.Start.Missing(in.Facts.Node)
	}
	return cmp.Or(fault.Line(strings.Join(awaited, "; ")), "the labels and taints of the Node have not been written yet")
}
