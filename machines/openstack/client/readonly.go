package client

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/machines/fault"
)

// readOnly sends only sign-ins and requests that change nothing.
type readOnly struct{ next http.RoundTripper }

// RoundTrip refuses requests that would change something.
func (r readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if changes(req) {
		return nil, fault.New(fault.Transient, fault.CodeUnsettled, "drover runs in observe mode: %s %s is not sent", req.Method, req.URL.Path)
	}
	return r.next.RoundTrip(req)
}

// changes reports whether a request would change something; signing in does not count.
func changes(req *http.Request) bool {
	signsIn := req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/auth/tokens")
	return req.Method != http.MethodGet && req.Method != http.MethodHead && !signsIn
}
