package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

// Deletion deletes a Machine's resources: pods, volumes, server, the server's other resources, Node, join token and finalizers,
// in that order.
type Deletion struct {
	// Nodes reads and writes Nodes.
	Nodes   client.Client
	Drains  *drain.Pool
	Tokens  *bootstrap.Tokens
	Retries *Retries
	// Power counts the Nodes that are put out of service before their server is deleted.
	Power *Power
	// Provider parses the resources that a Machine's status records, and names the resources that may be left behind.
	Provider cloud.Provider
}

// retryHeld is the interval at which a blocked deletion is checked again. No watched event ends the wait.
const retryHeld = 15 * time.Second

// Hold leaves the Machine's pods, server and Node as they are although the Machine is being deleted, and shows why.
func (d *Deletion) Hold(ctx context.Context, s *scope.Scope) (bool, error) {
	d.Drains.Forget(s.Machine.UID)
	s.Detail = s.Policy.WithheldMessage
	s.RequeueWithin(retryHeld)
	if s.Base.Condition(v1alpha1.ConditionDeleting).Reason != s.Last.Reason {
		s.Warn(s.Last.Reason, s.Policy.WithheldMessage)
		ctrl.LoggerFrom(ctx).Info("Deletion withheld", "reason", s.Last.Reason, "cause", s.Policy.WithheldMessage)
	}
	return false, nil
}

// DeleteServer requests the deletion of the server and waits until the cloud reports that the server is gone.
func (d *Deletion) DeleteServer(ctx context.Context, s *scope.Scope) (bool, error) {
	server := s.Observed.Cloud.Server
	if s.Base.Condition(v1alpha1.ConditionDeleting).Reason != lifecycle.ReasonDeletingServer {
		warnLeft(ctx, s)
		ctrl.LoggerFrom(ctx).Info("Deleting server", "server", server.ID)
	}
	if err := d.recordBelongings(ctx, s); err != nil {
		return false, err
	}
	s.Detail = fmt.Sprintf("deleting server %s, which is in state %s in the cloud", server.ID, server.Status)
	if err := s.Instance.DeleteServer(ctx); err != nil {
		return d.refusedInDeletion(ctx, s, err)
	}
	s.Memory.Backoff = backoff.Machine{} // the cloud has accepted a request
	s.RequeueWithin(scope.PollCloud)
	s.Progress.CloudRefused = s.Policy.ForceOver
	return s.Policy.ForceOver, nil
}

// recordBelongings records the server's other resources and their project before the server is deleted, because the cloud
// does not show them after the deletion. It writes nothing when they are recorded already.
func (d *Deletion) recordBelongings(ctx context.Context, s *scope.Scope) error {
	cloud.RecordServer(s.Machine, s.Observed.Cloud.Server)
	if d.Provider.Remembered(s.Base).BeforeDeletion == d.Provider.Remembered(s.Machine).BeforeDeletion {
		return nil
	}
	return s.WriteAhead(ctx, scope.BeforeDeletingServer)
}

// refusedInDeletion records that a call to the cloud failed, and reports whether the deletion continues without that call. Only
// a forced deletion continues. While the call merely waits behind other calls of drover, a forced deletion continues only when
// its time limit has ended (ForceOver).
func (d *Deletion) refusedInDeletion(ctx context.Context, s *scope.Scope, err error) (bool, error) {
	d.Retries.Failed(ctx, s, err)
	s.Progress.CloudRefused = !s.WaitsForTurn || s.Policy.ForceOver
	return s.Progress.CloudRefused && s.Observed.Force, nil
}

// Release deletes the server's other resources once the server is gone. The deletion of the Node does not wait for resources
// that take long.
func (d *Deletion) Release(ctx context.Context, s *scope.Scope) (bool, error) {
	released, err := s.Instance.Release(ctx)
	s.Progress.Released, s.Progress.Unreleased = released.Done, !released.Done
	if err != nil {
		_, err = d.refusedInDeletion(ctx, s, err)
		return true, err
	}
	s.Memory.Backoff = backoff.Machine{} // the cloud has accepted a request
	if len(released.Left) > 0 {
		s.LeftBehind, s.LeftReason = strings.Join(released.Left, "; "), lifecycle.ReasonLeftAlone
	}
	if !released.Done {
		s.Detail = released.Waiting
		s.RequeueWithin(scope.PollCloud)
		s.Progress.CloudRefused = s.Policy.ForceOver
	}
	return true, nil
}

// DeleteNode deletes the Node. It must not be called before the server is gone. It is not an error if the Node does not
// exist. A forced deletion tries until its time limit, and then continues although the Node still exists.
func (d *Deletion) DeleteNode(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Progress.NodeGone = true
	node := s.Observed.Node
	if node == nil {
		return true, nil
	}
	uid := node.UID
	target := &corev1.Node{ObjectMeta: node.ObjectMeta}
	if err := d.Nodes.Delete(ctx, target, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return leftByForce(ctx, s, fmt.Errorf("deleting node %s: %w", node.Name, err))
	}
	return true, nil
}

// DeleteToken deletes the join token of a Machine that is deleted before its Node has joined.
func (d *Deletion) DeleteToken(ctx context.Context, s *scope.Scope) (bool, error) {
	s.Progress.TokenGone = true
	if s.Observed.Joined {
		return true, nil
	}
	if err := d.Tokens.Delete(ctx, s.Machine); err != nil {
		return leftByForce(ctx, s, err)
	}
	return true, nil
}

// leftByForce returns err while the time limit of a forced deletion has not ended. Afterwards it records what could not be
// deleted and returns nil.
func leftByForce(ctx context.Context, s *scope.Scope, err error) (bool, error) {
	if !s.Policy.ForceOver {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Error(err, "A forced deletion leaves a resource behind")
	s.LeftReason = lifecycle.ReasonForced
	s.LeftBehind = strings.TrimPrefix(s.LeftBehind+"; "+fault.Line(err.Error()), "; ")
	return true, nil
}

// LetGo ends the deletion in the cloud without the cloud's confirmation, because nothing was ever created, the server is not
// drover's, or an operator forced the deletion. After a forced deletion, an Event names the resources that may still exist in
// the cloud.
func (d *Deletion) LetGo(_ context.Context, s *scope.Scope) (bool, error) {
	s.Progress.Released = true
	if s.Last.Reason == lifecycle.ReasonForced {
		s.LeftBehind, s.LeftReason = "the Machine was removed without the cloud's confirmation: "+d.Provider.MayBeLeft(s.Machine)+lastKnown(s), lifecycle.ReasonForced
	}
	return true, nil
}

// lastKnown describes the last known state of what is left behind: the state of the server, and what the deletion waited for.
func lastKnown(s *scope.Scope) string {
	var parts []string
	if server := s.Observed.Cloud.Server; server != nil {
		parts = append(parts, "the server was in state "+server.Status)
	}
	waited := s.Detail
	switch {
	case s.Failure != nil:
		waited = s.Failure.Message
	case s.Observed.CloudErr != nil:
		waited = s.Observed.CloudErr.Message
	case s.Observed.Cloud.Server != nil:
		waited = ""
	case waited == "":
		waited = status.WithoutRemedy(s.Base)
	}
	if waited != "" {
		parts = append(parts, fault.Line(waited))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; last known: " + strings.Join(parts, "; ")
}

// RemoveFinalizers removes the finalizers, which ends the Machine: either no resource is left, or an Event lists the
// resources that may be left. The Event is recorded before the write, because no other reconcile follows when the answer to
// the write is lost.
func (d *Deletion) RemoveFinalizers(ctx context.Context, s *scope.Scope) (bool, error) {
	if s.LeftBehind != "" {
		s.Warn(s.LeftReason, s.LeftBehind)
	}
	kept := s.Machine.Finalizers
	s.Machine.Finalizers = slices.DeleteFunc(slices.Clone(kept), lifecycle.Removes)
	d.warnOfFinalizers(s, kept)
	err := s.WriteAhead(ctx, scope.BeforeForgetting)
	if apierrors.IsNotFound(err) {
		// The Machine is gone, or the API server does not serve Machines at the moment. Check again later.
		s.RequeueWithin(scope.PollCloud)
	} else if err != nil {
		// Keep the finalizers in the working copy, so that only this step can remove them. Otherwise the write at the end of
		// the reconcile would remove them, without dropping the Machine's state in memory as this step does.
		s.Machine.Finalizers = kept
		return false, err
	}
	s.Gone = true
	d.Retries.Groups.Forget(s.Machine.UID)
	d.Drains.Forget(s.Machine.UID)
	return false, nil
}

// warnOfFinalizers reports the finalizers of machine-controller that drover removes without having done what they stand for, and the
// finalizers of other programs that still hold the Machine.
func (d *Deletion) warnOfFinalizers(s *scope.Scope, before []string) {
	ended := slices.DeleteFunc(slices.Clone(before), func(name string) bool {
		return !lifecycle.Removes(name) || slices.Contains(lifecycle.OwnFinalizers, name)
	})
	if len(ended) > 0 {
		s.Warn(lifecycle.ReasonFinalizerEnded, fmt.Sprintf("the server is gone, and drover removes machine-controller's finalizer %s; what it stands for, such as a subscription, must be ended by hand",
			strings.Join(ended, ", ")))
	}
	if len(s.Machine.Finalizers) == 0 {
		return
	}
	s.Last.Reason = lifecycle.ReasonFinalizers
	s.Detail = fmt.Sprintf("drover has deleted everything of this Machine; the object stays until other programs remove their finalizers: %s", strings.Join(s.Machine.Finalizers, ", "))
	s.Warn(lifecycle.ReasonFinalizers, s.Detail)
	s.ComputeStatus()
}
