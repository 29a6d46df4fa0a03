package client

import (
	"net/http"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestSignInBeforeTheEndOfKeystonesRetryAfter(t *testing.T) {
	t.Run("fails with an error whose RetryAfter is the remaining wait (F-26)", func(t *testing.T) {
		cloud := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusTooManyRequests)
		}})
		now := clocktesting.NewFakeClock(time.Now())
		s := newTestSession(t, Options{Configured: cloud.URL + "/v3", Clock: now}, cloud.URL+"/v3")
		if _, err := s.Scope(t.Context()); fault.Of(err).RetryAfter != 5*time.Minute {
			t.Fatalf("got %v, to come back after %s", err, fault.Of(err).RetryAfter)
		}
		now.Step(4 * time.Minute)
		if _, err := s.Scope(t.Context()); fault.Of(err).RetryAfter != time.Minute {
			t.Errorf("Scope: got %v, to come back after %s", err, fault.Of(err).RetryAfter)
		}
		if _, err := s.Known(); fault.Of(err).RetryAfter != time.Minute {
			t.Errorf("Known: got %v, to come back after %s", err, fault.Of(err).RetryAfter)
		}
	})
}
