package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
)

// busyPatience is how long a server with a running task of another user keeps the reason ServerBusy. While the reason is
// ServerBusy, the health controller does not replace the Machine.
const busyPatience = 30 * time.Minute

// shutDown returns condition ServerReady of a server that is shut down or being started.
func (in *Input) shutDown(server *cloud.Server) Verdict {
	start := lifecycle.StartOf(server, in.Machine.Status.ServerStart)
	switch in.Facts.Start {
	case lifecycle.StartRefrained:
		return Verdict{corev1.ConditionUnknown, lifecycle.ReasonServerStopped, fmt.Sprintf(
			"server %s is shut down (%s); drover does not start it, because an annotation forbids it (%s, %s, or a paused group)",
			server.ID, server.Status, v1alpha1.AnnotationSkipHealth, v1alpha1.AnnotationSkipHealthCAPI)}
	case lifecycle.StartFailed:
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerWontStart, start.Failure}
	}
	switch {
	case start != nil:
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerStarting, fmt.Sprintf(
			"server %s was shut down; drover has been starting it since %s", server.ID, start.Time.UTC().Format(time.RFC3339))}
	case server.State == cloud.ServerStarting:
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerStarting, fmt.Sprintf("server %s was shut down, and somebody is starting it", server.ID)}
	}
	return Verdict{corev1.ConditionUnknown, lifecycle.ReasonServerStopped, fmt.Sprintf("server %s is shut down (%s)", server.ID, server.Status)}
}

// busy returns condition ServerReady of a server with a running task of another user. drover does not replace the Machine for
// busyPatience after the condition has last become False.
func (in *Input) busy(server *cloud.Server) Verdict {
	since := in.Now.Time
	if c := in.Machine.Condition(v1alpha1.ConditionServerReady); c.Status == corev1.ConditionFalse && c.LastTransitionTime != nil {
		since = c.LastTransitionTime.Time
	}
	what := fmt.Sprintf("server %s has a task that drover did not start: the cloud calls it %s", server.ID, server.Busy)
	until := since.Add(busyPatience)
	if !in.Now.Time.Before(until) {
		return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerStopped, what + fmt.Sprintf(", for longer than %v", busyPatience)}
	}
	return Verdict{corev1.ConditionFalse, lifecycle.ReasonServerBusy, what + "; its Machine is left alone until " + until.UTC().Format(time.RFC3339)}
}

// forgetStart removes the record of a start that no longer matters: the Machine has another server, or the Node has been
// Ready for [lifecycle.StartUsedUp]. The record of a failed start is kept as long as the server.
func (in *Input) forgetStart() {
	start, server := in.Machine.Status.ServerStart, in.Facts.Cloud.Server
	if start == nil || server == nil {
		return
	}
	well := usedUntil(in.Machine, in.Facts)
	if start.Server != server.ID || !well.IsZero() && !in.Now.Time.Before(well) {
		in.Machine.Status.ServerStart = nil
	}
}

// usedUntil returns when the server may be started again, provided that its Node stays Ready until then. It returns zero while
// the server or its Node does not run, and when no successful start is recorded.
func usedUntil(m *v1alpha1.Machine, f *lifecycle.Facts) time.Time {
	start := lifecycle.StartOf(f.Cloud.Server, m.Status.ServerStart)
	if start == nil || start.Failure != "" || f.Cloud.Server.State != cloud.ServerActive || !nodes.Runs(f.Node) {
		return time.Time{}
	}
	since := nodes.Ready(f.Node).LastTransitionTime.Time
	if since.Before(start.Time.Time) {
		since = start.Time.Time
	}
	return since.Add(lifecycle.StartUsedUp)
}

// NextLook returns the time after which a Machine with this status must be reconciled again because of the state of its
// server. 0 means that it is reconciled only when something changes.
func NextLook(m *v1alpha1.Machine, f *lifecycle.Facts, now time.Time) time.Duration {
	if f.LeftAlone() || f.Deleting {
		return 0
	}
	due := usedUntil(m, f)
	switch c := m.Condition(v1alpha1.ConditionServerReady); {
	case c.Reason == lifecycle.ReasonServerBusy:
		due = c.LastTransitionTime.Add(busyPatience)
	case f.Start == lifecycle.StartPending:
		due = m.Status.ServerStart.Time.Add(lifecycle.StartTime)
	}
	if due.IsZero() {
		return 0
	}
	return max(due.Sub(now), time.Second)
}
