package csr

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestErrorsAreRetriedAfterAMinuteAtMost(t *testing.T) {
	retries := retries()
	for n := range 40 {
		if wait := retries.When(reconcile.Request{}); wait <= 0 || wait > time.Minute {
			t.Fatalf("error %d in a row is tried again after %s, want a minute at most", n+1, wait)
		}
	}
}
