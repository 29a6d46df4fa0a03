package machine_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestAFailedDeletionOfAServerInStateERROR(t *testing.T) {
	replaced := func(t *testing.T, refusal *fault.Error) string {
		t.Helper()
		b := newBench(t, nil)
		b.pass()
		b.cloud.refusal = refusal
		b.cloud.change("u", func(s *fakeServer) {
			s.State, s.Fault = cloud.ServerError, fault.New(fault.NoCapacity, fault.CodeNoValidHost, "No valid host was found.")
		})
		b.pass()
		return b.events()
	}
	t.Run("an Event reports the failure of the deletion with the cloud's error (F-28)", func(t *testing.T) {
		if got := replaced(t, fault.New(fault.Transient, fault.CodeServerError, "deleting server m: HTTP 500")); !strings.Contains(got, "deleting server m: HTTP 500") {
			t.Errorf("%s", got)
		}
	})
	t.Run("no Event reports a failure when the cloud's rate limit refused the delete call", func(t *testing.T) {
		if got := replaced(t, fault.New(fault.RateLimited, fault.CodeRateLimited, "deleting server m: wait")); strings.Contains(got, "wait") {
			t.Errorf("%s", got)
		}
	})
}
