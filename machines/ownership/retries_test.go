package ownership

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAFailedReconcileIsRetriedWithinHalfAMinute(t *testing.T) {
	retries := Retries()
	for n := range 40 {
		if wait := retries.When(reconcile.Request{}); wait <= 0 || wait > 30*time.Second {
			t.Fatalf("retry after error %d in a row waits %s, want at most half a minute", n+1, wait)
		}
	}
}
