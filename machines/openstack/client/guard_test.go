package client

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// oldLease is a leader lease that was not renewed in time.
type oldLease struct{}

func (oldLease) Fresh(time.Time) bool { return false }

func TestEndpointLimiterLearnsNothingFromARequestThatIsNotSentBecauseTheLeaseHasExpired(t *testing.T) {
	counted, err := newMetrics(prometheus.NewRegistry(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	now := clocktesting.NewFakeClock(time.Now())
	road := &transport{next: guard{next: passing{}, lease: oldLease{}, clock: now}, limiter: newLimiter(now, func(types.NamespacedName) {}), metrics: counted, clock: now}
	req := httptest.NewRequest(http.MethodPost, "http://cloud/v2.0/ports", http.NoBody)
	known := road.limiter.line(endpointKey{Identity, "cloud"}, requestKindOf(req))
	before := *known
	if resp, err := road.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("it was sent")
	}
	if !reflect.DeepEqual(*known, before) {
		t.Errorf("the unsent request counts as a failure of the endpoint: %+v", *known)
	}
	if n := testutil.CollectAndCount(counted.requests); n != 0 {
		t.Errorf("%d kinds of requests are counted", n)
	}
}

// passing is a RoundTripper that answers every request with 200.
type passing struct{}

func (passing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestTheTransportInObserveModeSendsOnlyReadsAndSignIns(t *testing.T) {
	for call, passes := range map[string]bool{
		"GET /v2.1/servers/detail": true, "HEAD /v3": true, "POST /identity/v3/auth/tokens": true,
		"POST /v2.1/servers": false, "POST /v2.1/servers/x/action": false, "PUT /v2.0/ports/x": false, "DELETE /v2.1/servers/x": false, "PATCH /v3/x": false,
	} {
		name := "refuses " + call
		if passes {
			name = "sends " + call
		}
		t.Run(name, func(t *testing.T) {
			var method, path string
			for i, c := range call {
				if c == ' ' {
					method, path = call[:i], call[i+1:]
				}
			}
			refused := 0
			resp, err := guard{next: passing{}, observe: func(*http.Request) { refused++ }}.RoundTrip(httptest.NewRequest(method, "http://cloud"+path, http.NoBody))
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != passes || (refused == 0) != passes {
				t.Errorf("passes: %v, %d refused; want %v", err == nil, refused, passes)
			}
		})
	}
}
