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
)

// settleEvery is the pause before a write with an unknown outcome is sent again.
const settleEvery = 100 * time.Millisecond

// errConflict: the object has changed since the decision, and our write did not land.
var errConflict = errors.New("the object has changed")

// commit sends the write, and returns the object after it. When the outcome stays unknown the very same write is sent again:
// if it succeeds now, the first one has not landed and cannot any more; if it conflicts, one live read shows whether the
// first one was the reason (CA-C62).
//
// Errors: errConflict; those of change.patch; FailedPrecondition for a refusal of the API server; Unavailable when the outcome
// is still unknown when ctx ends.
func (w *writer) commit(ctx context.Context, c change) (client.Object, error) {
	patch, err := c.patch(w.clock.Now())
	if err != nil {
		return nil, err
	}
	owner := c.group.owner
	var unknown error
	for {
		after := owner.blank()
		err := w.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Manager))
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
			return nil, &Error{Kind: FailedPrecondition, Message: "changing " + c.group.id + ", nothing was changed", Err: err}
		}
		unknown = err
		select {
		case <-ctx.Done():
			w.recorder.Eventf(owner.Object, nil, corev1.EventTypeWarning, "WriteUnsettled", "Scale", "Whether size %d -> %d was written is not known: %v", c.group.target, c.replicas, unknown)
			return nil, unavailable(unknown, "changing %s: the outcome is not known", c.group.id)
		case <-w.clock.After(settleEvery):
		}
	}
}

// settle finds out whether an earlier sending of the write has landed, and returns the object if it has.
func (w *writer) settle(ctx context.Context, c change) (client.Object, error) {
	owner := c.group.owner
	live := owner.blank()
	err := w.live.Get(ctx, owner.key(), live)
	if apierrors.IsNotFound(err) {
		return nil, refuse(FailedPrecondition, "changing %s: its %s is gone", c.group.id, owner.kind())
	}
	if err != nil {
		return nil, err
	}
	now := ownerOf(live)
	if c.landed(now) {
		return live, nil
	}
	if c.undecidable(now) {
		return nil, refuse(Unavailable, "changing %s: others have changed it since, and whether our write came first cannot be seen", c.group.id)
	}
	return nil, errConflict
}

// isUnknown reports whether a write may have landed although it failed: after every error but the API server's own refusal.
func isUnknown(err error) bool {
	if err == nil || errors.Is(err, errConflict) || KindOf(err) != "" {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 0 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
