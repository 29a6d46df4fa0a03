package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Retries returns the back-off of objects whose reconcile returned an error: 5 ms, doubled each time, at most half a minute. The default of
// controller-runtime grows to 17 minutes, so it would delay work long after the API server has recovered. The failure is shown with a retry,
// so within two minutes a retry must come after the 90 s for which a change of a status may wait.
func Retries() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](5*time.Millisecond, 30*time.Second)
}

// ErrCacheOld ends a reconcile whose informer cache shows an older state than the API server.
var ErrCacheOld = errors.New("the cache is older than the API server")

// IsConflict reports whether an error means that an object has changed since the informer cache showed it.
func IsConflict(err error) bool { return apierrors.IsConflict(err) || errors.Is(err, ErrCacheOld) }

// CheckCurrent returns [ErrCacheOld] when the API server has another spec of an object than the cache, or the object is being deleted or gone.
func CheckCurrent(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, o client.Object) error {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(kind)
	if err := live.Get(ctx, client.ObjectKeyFromObject(o), now); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the %s: %w", kind.Kind, err)
	}
	// A deletion is noticed, too: when it begins, the API server raises the generation.
	if now.UID != o.GetUID() || now.Generation != o.GetGeneration() {
		return ErrCacheOld
	}
	return nil
}

// Conflicts is the back-off of objects that the informer cache shows in an older version than the API server has: 200 ms, doubled each time,
// at most 10 s. The watch usually delivers the newer version before the first retry, but it may also be minutes late.
type Conflicts struct {
	workqueue.TypedRateLimiter[ctrl.Request]
}

// NewConflicts returns the back-off.
func NewConflicts() Conflicts {
	return Conflicts{workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](200*time.Millisecond, 10*time.Second)}
}

// Result returns what a reconcile that ended with result and err returns: after a conflict it is repeated, without an error.
func (c Conflicts) Result(ctx context.Context, req ctrl.Request, result ctrl.Result, err error) (ctrl.Result, error) {
	if !IsConflict(err) {
		c.Forget(req)
		return result, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("An object has changed since it was read, reconciling again")
	return ctrl.Result{RequeueAfter: c.When(req)}, nil
}
