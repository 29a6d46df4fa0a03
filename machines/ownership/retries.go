package ownership

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Retries returns the back-off of objects whose reconcile returned an error: 5 ms, doubled each time, at most a minute. The default of
// controller-runtime grows to 17 minutes, so it would delay work long after the API server has recovered.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, time.Minute)
}

// Conflicts returns the back-off of objects that the informer cache shows in an older version than the API server has: 200 ms, doubled each
// time, at most 10 s. The watch usually delivers the newer version before the first retry, but it may also be minutes late.
func Conflicts() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 10*time.Second)
}
