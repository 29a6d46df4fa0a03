package machine

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAFailedReconcileOfAMachineIsRetriedAfterAMinuteAtMost(t *testing.T) {
	retries := retries()
	for n := range 40 {
		if wait := retries.When(reconcile.Request{}); wait <= 0 || wait > time.Minute {
			t.Fatalf("the wait after error %d is %s, want a minute at most", n+1, wait)
		}
	}
}
