package client

import (
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// retryLease is the time after which drover retries a call that it did not send because the lease was too old. The lease is
// renewed every few seconds.
const retryLease = time.Second

// leased checks the age of the lease just before a request is sent, because the request may have waited in a queue, or the process
// may have been suspended. Without a fresh lease another process may be the leader, so drover must not change anything.
type leased struct {
	next  http.RoundTripper
	lease cloud.Lease
	clock clock.PassiveClock
}

// RoundTrip refuses a request that would change a resource while the lease is too old. The outcome of the request is certain,
// because it was not sent: the caller need not look for a resource.
func (l leased) RoundTrip(req *http.Request) (*http.Response, error) {
	if changes(req) && !l.lease.Fresh(l.clock.Now()) {
		err := fault.New(fault.RateLimited, fault.CodeRateLimited, "%s %s is not sent: drover's lease was not renewed in time", req.Method, req.URL.Path)
		err.RetryAfter = retryLease
		return nil, err
	}
	return l.next.RoundTrip(req)
}
