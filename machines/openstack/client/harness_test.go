package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// testCloud is an HTTP server that accepts every sign-in and answers other requests with the test's handlers.
type testCloud struct {
	*httptest.Server
	handlers map[string]http.HandlerFunc
	// compute is the URL of the compute service in the service catalog.
	compute string
}

// newTestCloud starts a testCloud. The keys of handlers are a method and a path, such as "GET /v2.1/servers".
func newTestCloud(t *testing.T, handlers map[string]http.HandlerFunc) *testCloud {
	t.Helper()
	c := &testCloud{handlers: handlers}
	c.Server = httptest.NewServer(c)
	c.compute = c.URL + "/v2.1"
	t.Cleanup(c.Close)
	return c
}

func (c *testCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handle := c.handlers[r.Method+" "+r.URL.Path]; handle != nil {
		handle(w, r)
		return
	}
	if r.Method+" "+r.URL.Path == "POST /v3/auth/tokens" {
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":{"issued_at":"2026-11-20T12:00:00Z","expires_at":"2026-11-21T12:00:00Z","project":{"id":"p"},
			"catalog":[{"type":"compute","endpoints":[{"interface":"public","region":"r","url":%q}]}]}}`, c.compute)
		return
	}
	http.NotFound(w, r)
}

// session returns a session of a client whose configured cloud is the test cloud.
func (c *testCloud) session(t *testing.T) *Session {
	t.Helper()
	return newTestSession(t, Options{Configured: c.URL + "/v3"}, c.URL+"/v3")
}

func newTestSession(t *testing.T, o Options, endpoint string) *Session {
	t.Helper()
	calls, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := calls.Session(Credentials{IdentityEndpoint: endpoint, Username: "u", Password: "p", ProjectID: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// get sends a GET for this path to the compute service.
func get(ctx context.Context, s *Session, path string) error {
	return s.Do(ctx, Call{Service: Compute, Doing: "reading"}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		var body map[string]any
		_, err := api.Get(ctx, api.ServiceURL(path), &body, nil)
		return err
	})
}
