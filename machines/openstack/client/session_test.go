package client

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
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

func TestServiceURLsAfterTheRenewalOfAToken(t *testing.T) {
	const first = `[{"type":"compute","endpoints":[{"interface":"public","region":"r","url":"http://old/v2.1"}]},
		{"type":"network","endpoints":[{"interface":"public","region":"r","url":"http://old:9696"}]}]`
	for name, tt := range map[string]struct{ catalog, compute, network, image string }{
		"are those of the new catalog": {
			`[{"type":"compute","endpoints":[{"interface":"public","region":"r","url":"https://new/v2.1"}]},
				{"type":"network","endpoints":[{"interface":"public","region":"r","url":"https://new:9696"}]}]`,
			"https://new/v2.1/", "https://new:9696/v2.0/", ""},
		"include a service that the first catalog lacked": {
			`[{"type":"compute","endpoints":[{"interface":"public","region":"r","url":"http://old/v2.1"}]},
				{"type":"image","endpoints":[{"interface":"public","region":"r","url":"http://new/image"}]}]`,
			"http://old/v2.1/", "http://old:9696/v2.0/", "http://new/image/v2/"},
		"stay in the region of the first catalog when the cloud gets a second region": {
			`[{"type":"compute","endpoints":[{"interface":"public","region":"b","url":"http://b/v2.1"},{"interface":"public","region":"r","url":"http://new/v2.1"}]}]`,
			"http://new/v2.1/", "http://old:9696/v2.0/", ""},
		"stay as they are when the new catalog has no compute service": {`[]`, "http://old/v2.1/", "http://old:9696/v2.0/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens atomic.Int32
			cloud := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": func(w http.ResponseWriter, _ *http.Request) {
				catalog := first
				if tokens.Add(1) > 1 {
					catalog = tt.catalog
				}
				w.Header().Set("X-Subject-Token", "token")
				w.WriteHeader(http.StatusCreated)
				_, _ = fmt.Fprintf(w, `{"token":{"issued_at":"2026-11-20T12:00:00Z","expires_at":"2026-11-21T12:00:00Z","project":{"id":"p"},"catalog":%s}}`, catalog)
			}})
			now := clocktesting.NewFakeClock(time.Now())
			s := newTestSession(t, Options{Configured: cloud.URL + "/v3", Clock: now}, cloud.URL+"/v3")
			if _, err := s.Scope(t.Context()); err != nil {
				t.Fatal(err)
			}
			now.Step(22 * time.Hour)
			nothing := func(context.Context, *gophercloud.ServiceClient) error { return nil }
			if err := s.Do(t.Context(), Call{Service: Network, Doing: "testing"}, nothing); err != nil {
				t.Fatal(err)
			}
			scope, err := s.Known()
			if err != nil || tokens.Load() != 2 {
				t.Fatalf("%d tokens, %v", tokens.Load(), err)
			}
			got := [3]string{scope.Endpoint(Compute), scope.Endpoint(Network), scope.Endpoint(Image)}
			if want := [3]string{tt.compute, tt.network, tt.image}; got != want || scope.Region != "r" {
				t.Errorf("got %v in region %s, want %v", got, scope.Region, want)
			}
		})
	}
}
