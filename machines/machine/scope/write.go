package scope

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/status"
)

// Ahead names a side effect before which the Machine must be written. Normally a reconcile writes its Machine once, at its
// end ([Scope.Finish]); the values of Ahead are the exceptions.
type Ahead string

// The side effects before which the Machine must be written. In each case, a new leader would do harm if it read the Machine
// as it was before the write. The comments say what the write changes.
const (
	// BeforeObserving restores fields that only drover writes and that another client has dropped. Facts that are read
	// without these fields are wrong.
	BeforeObserving Ahead = "observing the Machine"
	// BeforeCreating stores the finalizers and the project of the resources. Without them, resources could
	// be forgotten.
	BeforeCreating Ahead = "creating resources"
	// BeforeReplacing clears the provider ID of the failed server. Otherwise the deletion of the server would look like the
	// loss of a server.
	BeforeReplacing Ahead = "deleting a failed server"
	// BeforeDeletingServer records the server's resources and their project. After the deletion the cloud does not show them
	// any more.
	BeforeDeletingServer Ahead = "deleting the server"
	// BeforeStartingServer records the start, so that a new leader does not start the server again.
	BeforeStartingServer Ahead = "starting the server"
	// BeforeChangingNode records the keys that are about to be set on the Node. A key without a record would never be
	// removed.
	BeforeChangingNode Ahead = "changing the Node"
	// BeforeDeletingMachine records why the Machine is deleted and replaced by its set.
	BeforeDeletingMachine Ahead = "deleting the Machine"
	// BeforeForgetting removes the last finalizer. Only after that write may the Machine's state be dropped from memory.
	BeforeForgetting Ahead = "forgetting the Machine"

	atEnd Ahead = "ending the reconcile"
)

// reasonNotWritten is the reason of the Event about a Machine that the API server has refused to store for longer than a change
// that is not urgent may wait.
const reasonNotWritten = "MachineNotWritten"

// Finish computes the status and writes the changes of the reconcile. Changes that are not urgent may wait for the next
// urgent change.
func (s *Scope) Finish(ctx context.Context) error {
	s.ComputeStatus()
	s.RequeueWithin(status.NextLook(s.Machine, s.Facts(), s.Now()))
	return s.writeDue(ctx)
}

// FinishUnread ends a reconcile that could not read its facts. It writes why, as a change that is not urgent, and nothing that
// follows from the facts.
func (s *Scope) FinishUnread(ctx context.Context, why string) error {
	status.ShowUnread(s.Machine, s.Base, why, s.Now())
	return s.writeDue(ctx)
}

// writeDue writes the changes of the reconcile, unless they may still wait.
func (s *Scope) writeDue(ctx context.Context) error {
	if !s.Urgent && !status.Urgent(s.store.Provider, s.Base, s.Machine) && !equality.Semantic.DeepEqual(s.Base, s.Machine) {
		if late := s.Memory.late(s.Machine, s.Now()); late < 0 {
			s.RequeueWithin(-late)
			return nil
		}
	}
	return s.WriteAhead(ctx, atEnd)
}

// WriteAhead writes the changes made to the Machine so far, before a side effect that must not happen until they are stored.
// before names the side effect. It stores finalizers, provider ID and status in one patch, because a Machine has no status
// subresource. It does nothing when the Machine has not changed. If another client has written the Machine since the version in
// the cache, WriteAhead returns a Conflict, and another reconcile follows.
func (s *Scope) WriteAhead(ctx context.Context, before Ahead) error {
	if equality.Semantic.DeepEqual(s.Base, s.Machine) {
		s.Memory.unwritten = time.Time{}
		return nil
	}
	nodeFailed := s.nodeFailed()
	changedError := !equality.Semantic.DeepEqual(s.Base.Status.ErrorMessage, s.Machine.Status.ErrorMessage)
	patch := client.MergeFromWithOptions(s.Base, client.MergeFromWithOptimisticLock{})
	if err := s.store.Client.Patch(ctx, s.Machine, patch, FieldOwner); err != nil {
		s.Memory.forgetRemoved(s.Machine)
		late := s.Memory.late(s.Machine, s.Now())
		if apierrors.IsConflict(err) {
			// Another client has just written the Machine. That is normal unless it lasts.
			late -= conflictsAreNormal
		}
		if !apierrors.IsNotFound(err) && late >= 0 {
			// The Machine itself cannot show this. The recorder joins the repetitions of an Event.
			s.Warn(reasonNotWritten, fault.Line(fmt.Sprintf("drover cannot write this Machine, and its status is old: %v; drover tries again automatically; "+
				"if this lasts, check the API server, its admission webhooks, and the rights of drover there", err)))
		}
		return fmt.Errorf("patching Machine %s: %w", s.Machine.Name, err)
	}
	s.Base = s.Machine.DeepCopy()
	s.Memory.wroteMachine(s.Base, s.Now())
	ctrl.LoggerFrom(ctx).V(1).Info("Machine written", "before", before)
	for _, w := range s.warnings {
		s.Warn(w.reason, w.message)
	}
	s.warnings = nil
	if nodeFailed {
		s.store.NotReady.Inc()
		s.Warn(lifecycle.ReasonNodeNotReady, s.Machine.Condition(v1alpha1.ConditionReady).Message)
	}
	if changedError && s.Machine.Status.ErrorReason != nil {
		s.Warn(*s.Machine.Status.ErrorReason, ptr.Deref(s.Machine.Status.ErrorMessage, ""))
	}
	return nil
}

// conflictsAreNormal is how long a late write of a Machine may be refused because another client has changed the Machine. After that, an
// Event reports that the Machine is not written.
const conflictsAreNormal = 10 * time.Second

// nodeFailed reports whether the Machine that is about to be written shows that its Node is no longer Ready, and the stored one that it was.
// A Node that is Ready again before its health timeout each time is never replaced; Events and the metric count how often that happens
// (F-144).
func (s *Scope) nodeFailed() bool {
	now := s.Machine.Condition(v1alpha1.ConditionReady)
	return s.Machine.DeletionTimestamp == nil && now.Reason == lifecycle.ReasonNodeNotReady && s.Base.Condition(v1alpha1.ConditionReady).Status == corev1.ConditionTrue
}
