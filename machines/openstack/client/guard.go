package client

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// retryLease is the time after which drover retries a call that it did not send because the lease was too old. The lease is
// renewed every few seconds.
const retryLease = time.Second

// errNotSent is the cause of the error for a request that is not sent in observe mode.
var errNotSent = errors.New("the request was not sent")

// guard refuses requests that would change a resource in observe mode, and without a fresh lease. It checks the age of the lease just
// before a request is sent, because the request may have waited in a queue, or the process may have been suspended. Without a fresh lease
// another process may be the leader. The outcome of a refused request is certain, because it was not sent: the caller need not look for a
// resource.
type guard struct {
	next http.RoundTripper
	// observe receives each request that is refused in observe mode. It is nil outside of observe mode.
	observe func(*http.Request)
	// lease may be nil: then it is always fresh.
	lease cloud.Lease
	clock clock.PassiveClock
}

// RoundTrip sends a request unless it is refused.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case !changes(req):
	case g.observe != nil:
		g.observe(req)
		err := fault.New(fault.Transient, fault.CodeUnsettled, "drover runs in observe mode: %s %s is not sent", req.Method, req.URL.Path)
		err.Err = errNotSent
		return nil, err
	case g.lease != nil && !g.lease.Fresh(g.clock.Now()):
		err := fault.New(fault.RateLimited, fault.CodeRateLimited, "%s %s is not sent: drover's lease was not renewed in time", req.Method, req.URL.Path)
		err.RetryAfter = retryLease
		return nil, err
	}
	return g.next.RoundTrip(req)
}

// changes reports whether a request would change a resource in the cloud. A sign-in changes none.
func changes(req *http.Request) bool {
	signsIn := req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/auth/tokens")
	return req.Method != http.MethodGet && req.Method != http.MethodHead && !signsIn
}
