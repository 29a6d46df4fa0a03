package nodegroup

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// settleEvery is the pause before a write with an unknown outcome is sent again.
const settleEvery = 100 * time.Millisecond

// errConflict is returned when the API server refused the write because the object has changed since the decision.
var errConflict = errors.New("the object has changed")

// commit sends the write and returns the object as written. The write applies only to one version of the object. When the outcome
// is unknown, commit sends the same write again. If the second write succeeds, the first one was not applied and can no longer be
// applied. If the second write conflicts, one live read shows whether the first one was applied (CA-C62).
//
// Errors: errConflict; those of Change.Patch; FailedPrecondition when the API server refuses the write; Unavailable when the
// outcome is still unknown when ctx ends.
func (w *writer) commit(ctx context.Context, c model.Change) (client.Object, error) {
	patch, err := c.Patch(w.clock.Now())
	if err != nil {
		return nil, err
	}
	owner := c.Group.Owner
	var unknown error
	for {
		after := owner.Blank()
		err := w.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(model.Manager))
		switch {
		case err == nil:
			return after, nil
		case apierrors.IsConflict(err) && unknown == nil:
			return nil, errConflict
		case apierrors.IsConflict(err):
			if after, err := w.settle(ctx, c); !isUnknown(err) {
				return after, err
			}
		case !isUnknown(err):
			return nil, &model.Error{Kind: model.FailedPrecondition, Message: "changing " + c.Group.ID + " (nothing was changed)", Err: err}
		}
		unknown = err
		select {
		case <-ctx.Done():
			w.recorder.Eventf(owner.Object, nil, corev1.EventTypeWarning, "WriteUnsettled", "Scale", "It is not known whether size %d -> %d was written: %v", c.Group.Target, c.Replicas, unknown)
			return nil, model.Unavailablef(unknown, "changing %s: the outcome is not known", c.Group.ID)
		case <-w.clock.After(settleEvery):
		}
	}
}

// settle reads the object to find out whether an earlier attempt of the write was applied. It returns the object if so.
func (w *writer) settle(ctx context.Context, c model.Change) (client.Object, error) {
	owner := c.Group.Owner
	live := owner.Blank()
	err := w.live.Get(ctx, owner.Key(), live)
	if apierrors.IsNotFound(err) {
		return nil, model.Refusef(model.FailedPrecondition, "changing %s: its %s is gone", c.Group.ID, owner.Kind())
	}
	if err != nil {
		return nil, err
	}
	now := membership.OwnerOf(live)
	if c.Landed(now) {
		return live, nil
	}
	if c.Undecidable(now) {
		return nil, model.Refusef(model.Unavailable, "changing %s: another client has changed it since, so it is not known whether the write of this call was applied", c.Group.ID)
	}
	return nil, errConflict
}

// isUnknown reports whether a write that returned err may have been applied. This is true for every error except a refusal by
// the API server itself.
func isUnknown(err error) bool {
	if err == nil || errors.Is(err, errConflict) || model.KindOf(err) != "" {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 0 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
