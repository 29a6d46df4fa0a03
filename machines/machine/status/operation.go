package status

import (
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

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
