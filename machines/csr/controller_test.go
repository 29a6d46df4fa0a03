package csr

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestTheCertificateApproverRetriesWithinAMinuteAfterAnError(t *testing.T) {
	retries := retries()
	for n := range 40 {
		if wait := retries.When(reconcile.Request{}); wait <= 0 || wait > time.Minute {
			t.Fatalf("retry after error %d in a row waits %s, want at most a minute", n+1, wait)
		}
	}
}
