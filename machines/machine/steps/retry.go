package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// Retries holds the back-offs of groups. Those of single Machines are in [scope.Memory].
type Retries struct {
	Groups *backoff.Groups
	client client.Client
	writes *groupWrites
}

// NewRetries returns Retries without any back-off. The client writes to the control cluster. wake is called for a
// Machine that waits for a back-off of its group, when the Machine may ask the cloud for a server again.
func NewRetries(c client.Client, wake func(types.NamespacedName)) *Retries {
	return &Retries{client: c, Groups: backoff.NewGroups(wake), writes: newGroupWrites()}
}

// TakeTurn returns whether the Machine's group lets the Machine ask the cloud for a server now. After a back-off, and while servers keep
// failing to join, the Machine becomes the group's probe if there is none.
func (r *Retries) TakeTurn(ctx context.Context, s *scope.Scope) (backoff.Permission, error) {
	allowed := r.Groups.TakeTurn(s.Group.Holder, attempt(s), s.Observed.Cloud.QuotaRaised, s.Now())
	if !allowed.Allowed || !allowed.JoinsFail || s.Group.Set == "" {
		return allowed, nil
	}
	// After a change of leader, another Machine of the set whose server has no Node yet counts as the probe.
	peers, err := r.peers(ctx, s.Machine, s.Group.Set)
	allowed.Allowed = !slices.ContainsFunc(peers, func(m v1alpha1.Machine) bool { return joining(&m, s.Policy.Timeouts.Join, s.Now()) })
	return allowed, err
}

// joining reports whether the Machine has a server that may still become a Node. A paused Machine, and one whose server has
// been ACTIVE for longer than the join timeout (5 minutes without a timeout), may wait without a limit, so the others do not wait for it.
func joining(m *v1alpha1.Machine, timeout time.Duration, now time.Time) bool {
	if m.Spec.ProviderID == nil || m.Status.NodeRef != nil || m.DeletionTimestamp != nil || v1alpha1.Paused(m.Annotations) {
		return false
	}
	if timeout <= 0 {
		timeout = backoff.ProbeTimeout
	}
	active := m.Condition(v1alpha1.ConditionServerReady)
	return active.Status != corev1.ConditionTrue || active.LastTransitionTime == nil || now.Sub(active.LastTransitionTime.Time) < timeout
}

// peers returns the other Machines of the set.
func (r *Retries) peers(ctx context.Context, m *v1alpha1.Machine, set types.UID) ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	err := r.client.List(ctx, &list, client.InNamespace(m.Namespace), client.MatchingFields{scope.IndexMachineSet: string(set)})
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of a set: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other v1alpha1.Machine) bool { return other.UID == m.UID }), nil
}

// attempt describes the Machine's request for a server to the group's back-offs.
func attempt(s *scope.Scope) backoff.Attempt {
	a := backoff.Attempt{Machine: client.ObjectKeyFromObject(s.Machine), UID: s.Machine.UID, Revision: s.Group.Revision}
	if s.Instance != nil {
		placement := s.Instance.Placement()
		a.Flavor, a.Zone = placement.Flavor, placement.Zone
	}
	return a
}

// Failed records a failure that delays only this Machine, and when to try again. A call that only waits behind other calls of
// drover is not a failure: the cloud driver requeues the Machine when the turn of the call comes. The requeue that Failed
// plans for this case is only a fallback. It is not a success either: a deletion that waits still shows its last failure.
func (r *Retries) Failed(ctx context.Context, s *scope.Scope, err error) {
	r.failed(ctx, s, fault.Of(err), s.Memory.Backoff.Failed)
}

// Unreadable records that the Machine's facts could not be read, and when to read them again.
func (r *Retries) Unreadable(ctx context.Context, s *scope.Scope) {
	r.failed(ctx, s, s.Observed.CloudErr, s.Memory.Backoff.Unreadable)
}

// recorder records a failure of a Machine and returns how long the Machine waits.
type recorder func(m *v1alpha1.Machine, cause *fault.Error, now time.Time) time.Duration

func (r *Retries) failed(ctx context.Context, s *scope.Scope, cause *fault.Error, record recorder) {
	if cause.Code == fault.CodeWaitingForTurn {
		s.WaitsForTurn = true
		if s.Observed.Deleting {
			s.Failure = s.Memory.Backoff.Last(s.Machine, s.Now())
		}
		s.Detail = strings.TrimPrefix(s.Detail+"; waiting for other calls of drover to the cloud", "; ")
		s.RequeueWithin(max(cause.RetryAfter, fault.PolicyOf(cause.Class).Retry))
		return
	}
	s.Failure = cause
	r.Groups.Release(s.Machine.UID)
	s.RequeueAfter = record(s.Machine, cause, s.Now())
	logFailure(ctx, s)
}

func logFailure(ctx context.Context, s *scope.Scope) {
	ctrl.LoggerFrom(ctx).Info("Step failed", "step", s.Last.Step, "class", s.Failure.Class, "code", s.Failure.Code,
		"message", s.Failure.Message, "retryAfter", s.RequeueAfter.String())
}

// FailedInCloud records that the cloud refused a request. If other Machines of the group would meet the same failure, the
// failure opens the group's back-off; otherwise it delays only this Machine.
func (r *Retries) FailedInCloud(ctx context.Context, s *scope.Scope, err error) {
	cause := fault.Of(err)
	if !fault.PolicyOf(cause.Class).OpensBackoff {
		r.Failed(ctx, s, err)
		return
	}
	s.Failure = cause
	e := r.Groups.Failed(s.Group.Holder, attempt(s), cause, s.Now())
	if e != nil {
		s.RequeueWithin(e.Until.Sub(s.Now()))
	}
	logFailure(ctx, s)
	r.writeGroup(ctx, s)
}

// ServerFailed records that the server has gone to ERROR. Some classes of failures open the group's back-off immediately. A
// failure of another class delays only its own Machine; a second such failure opens the group's back-off, unless a server of
// the group became ACTIVE between the two. All Machines of the group show an open back-off (fault.GroupWait).
func (r *Retries) ServerFailed(ctx context.Context, s *scope.Scope, cause *fault.Error) {
	if fault.PolicyOf(cause.Class).OpensBackoff {
		r.FailedInCloud(ctx, s, cause)
		return
	}
	attempt := attempt(s)
	attempt.Server = s.Observed.Cloud.Server.ID
	r.Groups.Failed(s.Group.Holder, attempt, cause, s.Now())
	r.Failed(ctx, s, cause)
	r.writeGroup(ctx, s)
}

// ServerWorks records, once for each server, that the server has become ACTIVE or its Node has joined. This may end back-offs
// of the group.
func (r *Retries) ServerWorks(ctx context.Context, s *scope.Scope) {
	server := s.Observed.Cloud.Server
	works := server != nil && (server.State == cloud.ServerActive || s.Observed.Joined)
	if !works || s.Observed.Deleting || s.Group.Holder == nil {
		return
	}
	s.Memory.Backoff = backoff.Machine{}
	if s.Base.Condition(v1alpha1.ConditionServerReady).Status == corev1.ConditionTrue {
		return
	}
	if r.Groups.Succeeded(s.Group.Holder, attempt(s), s.Now()) {
		r.writeGroup(ctx, s)
	}
}

// JoinEnded records the end of the wait for a Node. ok reports whether the server has become a Node; if not, the join timeout
// has ended.
func (r *Retries) JoinEnded(ctx context.Context, s *scope.Scope, ok bool) error {
	if s.Group.Holder == nil || s.Group.Set == "" {
		return nil
	}
	nodes := 0
	if !ok {
		peers, err := r.peers(ctx, s.Machine, s.Group.Set)
		if err != nil {
			return err
		}
		for i := range peers {
			if peers[i].Status.NodeRef != nil {
				nodes++
			}
		}
	}
	if r.Groups.Joined(s.Group.Holder, s.Machine.UID, ok, nodes) {
		r.writeGroup(ctx, s)
	}
	return nil
}

// Wait handles a reconcile that ended because a back-off delays the Machine: it copies the back-off into the scope, and
// requeues the Machine for the time at which the back-off ends. It returns false when the reconcile ended for another reason.
// When the group's back-off is over and the Machine only waits for the group's probe, the Machine gets no error: the shortage
// may have ended. A Machine that shows the group's error already keeps it until the next attempt.
func (r *Retries) Wait(s *scope.Scope) bool {
	now := s.Now()
	switch s.Last.Reason {
	case lifecycle.ReasonBackOff:
		r.awaitRetry(s)
	case lifecycle.ReasonGroupBackoff:
		e := s.Policy.Permission.Backoff
		if e.Until.After(now) || ptr.Deref(s.Machine.Status.ErrorReason, "") == e.Code {
			s.Failure = backoff.FailureFor(e, s.Machine)
		} else {
			s.Detail = "another Machine of the group asks the cloud for a server first, because the group's last attempt failed (" + e.Code + ")"
		}
		s.RequeueWithin(max(s.Policy.Permission.RetryAt.Sub(now), time.Second))
	case lifecycle.ReasonJoinsFail:
		s.RequeueWithin(max(s.Policy.Permission.RetryAt.Sub(now), scope.PollCloud))
	default:
		return false
	}
	return true
}

// AwaitRetry ends a reconcile of a Machine that is being deleted and that waits after a failure of its deletion. The Machine
// shows that failure until the next attempt.
func (r *Retries) AwaitRetry(_ context.Context, s *scope.Scope) (bool, error) {
	r.awaitRetry(s)
	return false, nil
}

// StillRefused keeps the last failure of a deletion in the cloud while a back-off runs and the deletion goes on with what needs no
// cloud. Otherwise the error would come and go in the status. A drain shows only its own state.
func (r *Retries) StillRefused(s *scope.Scope) {
	if !s.Observed.Deleting || !s.Policy.BackingOff || s.Failure != nil {
		return
	}
	switch s.Last.Step {
	case lifecycle.OutOfService, lifecycle.DeleteNode, lifecycle.DeleteToken:
	case lifecycle.Wait:
		// Other waits, such as that for a confirmation, do not end with the failure.
		if s.Last.Reason != lifecycle.ReasonReleasing {
			return
		}
	default:
		return
	}
	s.Failure = s.Memory.Backoff.Last(s.Machine, s.Now())
}

func (r *Retries) awaitRetry(s *scope.Scope) {
	now := s.Now()
	s.Failure = s.Memory.Backoff.Last(s.Machine, now)
	s.RequeueWithin(max(s.Memory.Backoff.Until(s.Machine, now).Sub(now), time.Second))
}

// writeGroup writes the group's back-offs and the outcomes of its joins to the status of its deployment or set; see
// writeHolder. For a Machine without an owner, the Machine's next write stores the back-offs.
func (r *Retries) writeGroup(ctx context.Context, s *scope.Scope) {
	if _, alone := s.Group.Holder.(*v1alpha1.Machine); alone {
		status, _ := r.Groups.Status(s.Group.Holder)
		s.Machine.Status.Backoffs = status.Backoffs
		return
	}
	r.writeHolder(ctx, s.Group.Holder)
}
