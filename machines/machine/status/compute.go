package status

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
)

// Result is the part of the outcome of a reconcile that the status reports.
type Result struct {
	// Last is the step that ended the reconcile.
	Last lifecycle.Decision
	// Failure is the failure of the cloud or of the Machine's spec; nil when there is none.
	Failure *fault.Error
	// Detail explains the last step to users.
	Detail string
	// Unfinished explains why the reconcile ended with an error. It is the same text when the next reconcile fails in the same way.
	Unfinished string
	// Awaited is what the Node lacks to complete its first start, one sentence each.
	Awaited []string
	// Unsynced reports whether labels or taints of the Node could not be written. In that case the Machine is not shown as
	// Ready yet.
	Unsynced bool
	// Warnings name the fields and annotations that have no effect or that cannot be parsed, one sentence each.
	Warnings []string
}

// Input is what the status of a Machine is computed from.
type Input struct {
	// Machine is the Machine whose status is changed. Base is the Machine as it is stored.
	Machine, Base *v1alpha1.Machine
	Facts         *lifecycle.Facts
	Result
	Start nodes.StartRules
	Now   metav1.Time
}

// Compute computes the whole status of the Machine. It changes nothing when the Machine is ignored.
func Compute(in *Input) {
	f, m := in.Facts, in.Machine
	if f.LeftAlone() {
		return
	}
	in.setError()
	cloud.RecordServer(m, f.Cloud.Server)
	if !f.ServerUnlisted() {
		in.show(v1alpha1.ConditionServerReady, in.serverReady())
	}
	in.forgetStart()
	if v, known := in.specValid(); known {
		in.set(v1alpha1.ConditionSpecValid, v)
	}
	if in.showsReady() {
		in.show(v1alpha1.ConditionReady, in.nodeReady())
	}
	in.setWarnings()
	if f.Deleting {
		in.show(v1alpha1.ConditionDeleting, Verdict{corev1.ConditionTrue, in.Last.Reason, in.deletionMessage()})
	}
	if n := f.Node; n != nil && !f.Deleting {
		m.Status.Versions = &v1alpha1.MachineVersionInfo{Kubelet: n.Status.NodeInfo.KubeletVersion}
	}
	m.Status.Phase = ptr.To(in.phase())
	in.setOperation()
}

func (in *Input) set(name string, v Verdict) { SetCondition(in.Machine, name, v, in.Now) }

// showsReady reports whether condition Ready is computed again. Otherwise the stored condition stays: when the Node has
// started but cannot be written now, and when neither a Node nor anything new about the server is known.
func (in *Input) showsReady() bool {
	f := in.Facts
	if f.Node == nil && !f.Joined && !f.Deleting && f.ServerUnlisted() {
		return false
	}
	starting := f.Node != nil && !f.HasStarted()
	return starting || !in.Unsynced
}

// deletionMessage returns what the deletion waits for. During a drain, the message does not include the state of the cloud:
// a drain does not wait for the cloud, and each change of the message would record another Event.
func (in *Input) deletionMessage() string {
	if step := in.Last.Step; step == lifecycle.DrainNode || step == lifecycle.AwaitDetach {
		return in.message()
	}
	return in.withOutdated(in.message())
}

// message returns the message of the step that ended the reconcile.
func (in *Input) message() string {
	switch {
	case in.Failure != nil && in.Last.Reason == lifecycle.ReasonDetaching:
		return join(in.Detail, in.Failure.Message)
	case in.Failure != nil:
		return fault.Line(in.Failure.Message)
	}
	return cmp.Or(in.Detail, lifecycle.Why(in.Facts, in.Last))
}

// setError sets the error fields to the failure. The fields stay until there is a server (or, in a deletion, until a
// reconcile without failure), so that the reason does not flicker during a back-off. A rate limit of the cloud is not shown.
func (in *Input) setError() {
	s := &in.Machine.Status
	switch {
	case in.showsFailure():
		s.ErrorReason = ptr.To(string(in.Failure.Code))
		s.ErrorMessage = ptr.To(fault.Line(in.Failure.Message))
	case stays(in.Facts.Cloud.Server), in.Facts.Deleting && in.Failure == nil:
		s.ErrorReason, s.ErrorMessage = nil, nil
	}
}

// showsFailure reports whether the error fields show the failure. They do not show a rate limit of the cloud. For a Machine
// that has a server and is not being deleted, they also do not show a failure to read the state of the cloud.
func (in *Input) showsFailure() bool {
	f := in.Facts
	lives := in.Last.Step == lifecycle.Fail && f.HadServer && !f.Deleting
	return in.Failure != nil && in.Failure.Class != fault.RateLimited && !lives
}

// stays reports whether s is a server that has not failed and is not being deleted.
func stays(s *cloud.Server) bool {
	return s != nil && s.State != cloud.ServerError && s.State != cloud.ServerDeleting
}

// specValid returns condition SpecValid: False when the spec was refused, and True when there is a server. The second result
// is false when neither is the case.
func (in *Input) specValid() (Verdict, bool) {
	switch {
	case in.Failure != nil && in.Failure.Class == fault.Invalid && in.Last.Reason != lifecycle.ReasonJoinTimeout:
		return Verdict{corev1.ConditionFalse, string(in.Failure.Code), fault.Line(in.Failure.Message)}, true
	case in.Facts.Cloud.Server != nil:
		return Verdict{corev1.ConditionTrue, lifecycle.ReasonSpecValid, ""}, true
	}
	return Verdict{}, false
}

// setWarnings sets condition Warnings. It must be called after condition Ready was set. Most Machines have no such condition.
func (in *Input) setWarnings() {
	warnings, reason := slices.Concat(in.Warnings, in.Machine.Spec.WithoutEffect("spec")), lifecycle.ReasonWithoutEffect
	if ready := in.Machine.Condition(v1alpha1.ConditionReady); in.Unfinished != "" && ready.Status == corev1.ConditionTrue && !in.Facts.Deleting {
		// No other condition shows that something of a Ready Machine is not done.
		warnings = append(warnings, Since(in.Base.Condition(v1alpha1.ConditionWarnings).Message, in.Unfinished, in.Now.Time)+"; "+retried)
		reason = lifecycle.ReasonUnfinished
	}
	slices.Sort(warnings)
	text := strings.Join(slices.Compact(warnings), "; ")
	switch {
	case text != "":
		in.set(v1alpha1.ConditionWarnings, Verdict{corev1.ConditionTrue, reason, fault.Line(text)})
	case in.Machine.Condition(v1alpha1.ConditionWarnings).Reason != "" && in.Facts.CloudErr == nil && in.Facts.Cloud.Synced:
		in.set(v1alpha1.ConditionWarnings, Verdict{corev1.ConditionFalse, lifecycle.ReasonSpecValid, ""})
	}
}

func (in *Input) phase() v1alpha1.MachinePhase {
	f := in.Facts
	was := ptr.Deref(in.Base.Status.Phase, "")
	switch {
	case f.Deleting:
		return v1alpha1.PhaseDeleting
	case in.showsFailure() && terminal(in.Failure):
		return v1alpha1.PhaseFailed
	case f.Joined && (f.HasStarted() || f.Node == nil && was == v1alpha1.PhaseRunning):
		return v1alpha1.PhaseRunning
	case f.Joined:
		return v1alpha1.PhaseJoined
	case stays(f.Cloud.Server):
		return v1alpha1.PhaseProvisioning
	case was == v1alpha1.PhaseFailed && in.Machine.Status.ErrorReason != nil:
		return v1alpha1.PhaseFailed
	case f.ServerUnseen():
		return v1alpha1.PhaseProvisioning
	}
	return v1alpha1.PhasePending
}

// terminal reports whether the failure needs user action: the spec is wrong, or a resource that it needs is gone.
func terminal(f *fault.Error) bool {
	return f != nil && (f.Class == fault.Invalid || f.Class == fault.NotFound)
}

// Verdict is the value of a condition.
type Verdict struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// SetCondition sets a condition of a Machine, as [v1alpha1.Machine.SetCondition] does.
func SetCondition(m *v1alpha1.Machine, name string, v Verdict, now metav1.Time) {
	m.SetCondition(v1alpha1.MachineCondition{Type: name, Status: v.Status, Reason: v.Reason, Message: v.Message}, now)
}

// States of the last operation, in addition to [v1alpha1.OperationFailed].
const (
	stateProcessing = "Processing"
	stateSuccessful = "Successful"
)

// setOperation sets the last operation. Its time is when the operation started: the time changes when the kind, the state
// or the text of the operation changes, and stays when the Machine is only reconciled again. The text of an operation that
// has not failed is the reason for which the Machine waits, so the time shows since when it waits.
func (in *Input) setOperation() {
	if in.Facts.ServerUnlisted() && !in.Facts.Deleting && in.Failure == nil {
		// A new leader knows nothing new yet.
		return
	}
	kind, state, text := in.operation()
	old := in.Machine.Status.LastOperation
	same := old != nil && ptr.Deref(old.Type, "") == kind && ptr.Deref(old.State, "") == state
	if same && ptr.Deref(old.Description, "") == text {
		return
	}
	in.Machine.Status.LastOperation = &v1alpha1.LastOperation{Type: ptr.To(kind), State: ptr.To(state), Description: ptr.To(text), LastUpdated: &in.Now}
}

func (in *Input) operation() (kind, state, text string) {
	f := in.Facts
	switch {
	case f.Deleting && in.Last.Step == lifecycle.DrainNode:
		kind = "Drain"
	case f.Deleting:
		kind = v1alpha1.OperationDelete
	case f.Joined:
		kind = "Join"
	default:
		kind = "Create"
	}
	if f.Deleting || !f.Joined {
		text = in.Last.Reason
	}
	switch {
	case in.Last.Reason == lifecycle.ReasonDetaching:
		// The time of this operation limits the wait for volumes, so a failure meanwhile must not replace the operation.
		return kind, stateProcessing, text
	case in.Failure != nil && in.Failure.Class != fault.RateLimited:
		return kind, v1alpha1.OperationFailed, ptr.Deref(in.Machine.Status.ErrorMessage, fault.Line(in.Failure.Message))
	case f.Joined && !f.Deleting:
		return kind, stateSuccessful, text
	}
	return kind, stateProcessing, text
}
