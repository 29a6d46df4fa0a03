package client

import (
	"net/http"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// retryLease is how soon to come back when the lease was too old: it is renewed every few seconds.
const retryLease = time.Second

// leased looks at the lease's age when a request is about to be sent, since it may have stood in line, and the whole
// process may have stood still: under a lease that may be another's by now nothing is changed in the cloud.
type leased struct {
	next  http.RoundTripper
	lease cloud.Lease
	clock clock.PassiveClock
}

// RoundTrip refuses what would change something while the lease is too old. That the request was not sent is certain, so
// nobody has to look for what it may have made.
func (l leased) RoundTrip(req *http.Request) (*http.Response, error) {
	if changes(req) && !l.lease.Fresh(l.clock.Now()) {
		err := fault.New(fault.RateLimited, fault.CodeRateLimited, "%s %s is not sent: drover's lease was not renewed in time", req.Method, req.URL.Path)
		err.RetryAfter = retryLease
		return nil, err
	}
	return l.next.RoundTrip(req)
}
