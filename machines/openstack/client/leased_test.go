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
	road := &transport{next: leased{passing{}, oldLease{}, now}, limits: newLimits(now, func(types.NamespacedName) {}), metrics: counted, clock: now}
	req := httptest.NewRequest(http.MethodPost, "http://cloud/v2.0/ports", http.NoBody)
	known := road.limits.endpoint(Identity, "cloud").queue(requestKindOf(req))
	before := *known.concurrency
	if resp, err := road.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("it was sent")
	}
	if !reflect.DeepEqual(*known.concurrency, before) || known.inFlight != 0 {
		t.Errorf("the unsent request counts as a failure of the endpoint: %+v, %d in flight", *known.concurrency, known.inFlight)
	}
	if n := testutil.CollectAndCount(counted.requests); n != 0 {
		t.Errorf("%d kinds of requests are counted", n)
	}
}
