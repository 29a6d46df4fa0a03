package scope

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/machine/status"
)

// Ahead names a side effect before which the Machine must be written. A reconcile writes its Machine once, at its end
// ([Scope.Finish]); these are the exceptions.
type Ahead string

// The exceptions. In each, a successor of this process would do harm if it read the Machine in its former state.
const (
	// BeforeObserving restores fields: another client has dropped fields that only drover writes. Facts that are read without them
	// are wrong.
	BeforeObserving Ahead = "observing the Machine"
	// BeforeCreating stores the finalizers and the project of the resources. Without them, resources could
	// be forgotten.
	BeforeCreating Ahead = "creating resources"
	// BeforeReplacing clears the provider ID of the failed server. Otherwise the deletion would look like a
	// lost server.
	BeforeReplacing Ahead = "deleting a failed server"
	// BeforeDeletingServer records the server's resources and their project. Afterwards the cloud does
	// not show them any more.
	BeforeDeletingServer Ahead = "deleting the server"
	// BeforeStartingServer records the start. A successor must not start the server again.
	BeforeStartingServer Ahead = "starting the server"
	// BeforeChangingNode records the keys that the Node is about to get. A key without a record would
	// never be removed.
	BeforeChangingNode Ahead = "changing the Node"
	// BeforeDeletingMachine records why the Machine is deleted for its set to replace.
	BeforeDeletingMachine Ahead = "deleting the Machine"
	// BeforeForgetting removes the last finalizer. Until then its state must not be dropped from memory.
	BeforeForgetting Ahead = "forgetting the Machine"

	atEnd Ahead = "ending the reconcile"
)

// WriteAhead writes the changes of the Machine so far, before the side effect that why names. It writes nothing when nothing
// differs.
func (s *Scope) WriteAhead(ctx context.Context, why Ahead) error {
	return s.write(ctx, why)
}

// Finish computes the status and writes the changes of the reconcile. Changes that are not urgent may wait for the next urgent
// one.
func (s *Scope) Finish(ctx context.Context) error {
	s.ComputeStatus()
	s.RequeueWithin(status.NextLook(s.Machine, s.Facts(), s.Now()))
	if !s.Urgent && !status.Urgent(s.store.Provider, s.Base, s.Machine) && !equality.Semantic.DeepEqual(s.Base, s.Machine) {
		if left := s.store.memory.mayWait(s.Machine, s.Now()); left > 0 {
			s.RequeueWithin(left)
			return nil
		}
	}
	return s.write(ctx, atEnd)
}

// write stores the Machine: finalizers, provider ID and status in one patch, since a Machine has no status subresource. It does
// nothing when nothing differs. If another client wrote the Machine since the cache's version, it returns a Conflict, and
// another reconcile follows.
func (s *Scope) write(ctx context.Context, before Ahead) error {
	memory := s.store.memory
	if equality.Semantic.DeepEqual(s.Base, s.Machine) {
		memory.nothingWaits(s.Machine)
		return nil
	}
	changedError := !equality.Semantic.DeepEqual(s.Base.Status.ErrorMessage, s.Machine.Status.ErrorMessage)
	patch := client.MergeFromWithOptions(s.Base, client.MergeFromWithOptimisticLock{})
	if err := s.store.Client.Patch(ctx, s.Machine, patch, s.store.FieldOwner); err != nil {
		memory.forgetRemoved(s.Machine)
		return fmt.Errorf("patching Machine %s: %w", s.Machine.Name, err)
	}
	s.Base = s.Machine.DeepCopy()
	memory.wroteMachine(s.Base, s.Now())
	ctrl.LoggerFrom(ctx).V(1).Info("Machine written", "before", before)
	for _, w := range s.warnings {
		s.Warn(w.reason, w.message)
	}
	s.warnings = nil
	if changedError && s.Machine.Status.ErrorReason != nil {
		s.Warn(*s.Machine.Status.ErrorReason, ptr.Deref(s.Machine.Status.ErrorMessage, ""))
	}
	return nil
}
