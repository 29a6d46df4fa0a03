package ownership

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Retries returns the back-off of objects whose reconcile returned an error: 5 ms, doubled each time, at most half a minute. The default of
// controller-runtime grows to 17 minutes, so it would delay work long after the API server has recovered. The failure is shown with a retry,
// so within two minutes a retry must come after the 90 s for which a change of a status may wait.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 30*time.Second)
}

// Conflicts returns the back-off of objects that the informer cache shows in an older version than the API server has: 200 ms, doubled each
// time, at most 10 s. The watch usually delivers the newer version before the first retry, but it may also be minutes late.
func Conflicts() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 10*time.Second)
}
