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

// Ahead is what must not happen before the Machine is written. A reconcile writes its Machine once, at its end: [Scope.Finish].
// The values of Ahead are the exceptions.
type Ahead string

// The exceptions. In each, a successor of this process would do harm if it saw the Machine as it was before.
const (
	// BeforeObserving: another client has dropped fields that only drover writes. Facts that are read without them are wrong.
	BeforeObserving Ahead = "observing the Machine"
	// BeforeCreating: the finalizers, and where resources are made. Without them what is made can be forgotten.
	BeforeCreating Ahead = "creating resources"
	// BeforeReplacing: the Machine does not name its failed server any more. Else its deletion would look like a loss.
	BeforeReplacing Ahead = "deleting a failed server"
	// BeforeDeletingServer: what goes with the server, and where it is. Afterwards the cloud does not show it any more.
	BeforeDeletingServer Ahead = "deleting the server"
	// BeforeStartingServer: that the server is started. A successor must not start it again.
	BeforeStartingServer Ahead = "starting the server"
	// BeforeChangingNode: the keys that the Node is to get. A key that nothing records would never be removed from it.
	BeforeChangingNode Ahead = "changing the Node"
	// BeforeDeletingMachine: why the Machine is deleted for its set to replace.
	BeforeDeletingMachine Ahead = "deleting the Machine"
	// BeforeForgetting: the Machine has no finalizer any more. Until then nothing that is remembered of it may be dropped.
	BeforeForgetting Ahead = "forgetting the Machine"

	atEnd Ahead = "ending the reconcile"
)

// WriteAhead writes what the reconcile has changed in the Machine so far, before the side effect that the reason names. It
// writes nothing when nothing differs.
func (s *Scope) WriteAhead(ctx context.Context, why Ahead) error {
	return s.write(ctx, why)
}

// Finish computes the status, and writes what the reconcile has changed: unless nothing of it is urgent and it may still wait
// for a write that is.
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

// write stores the Machine: finalizers, provider ID and status in one patch, since a Machine has no status subresource. It
// does nothing when nothing differs. A write of another client since the cache's version returns a Conflict, and another
// reconcile follows.
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
