package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// always is a RoundTripper that answers every request with 200.
type always struct{}

func (always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// seriesIn returns the number of metric series in a Prometheus registry.
func seriesIn(t *testing.T, registry prometheus.Gatherer) (n int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

func TestRegularCleanUpOfTheOpenStackClientsMemory(t *testing.T) {
	t.Run("removes endpoints, request queues and microversions unused for 30 minutes, and metrics of node groups without Machines (F-12)", func(t *testing.T) {
		synctest.Test(t, testSweep)
	})
}

func testSweep(t *testing.T) {
	const many = 10_000
	registry := prometheus.NewRegistry()
	c, err := New(Options{HTTP: always{}, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	sent := &transport{next: always{}, limiter: c.limiter, metrics: c.metrics, clock: clock.RealClock{}}
	send := func(group, host, collection string) {
		ctx := withService(withCaller(t.Context(), Caller{Group: group}), Compute)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/v2.1/"+collection, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := sent.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	sweep := func() {
		c.Sweep(time.Now().Add(-30*time.Minute), func(group string) bool { return group == "living" })
	}
	send("living", "own", "servers")
	send("", "own", "servers")
	start := seriesIn(t, registry)
	for n := range many {
		send(fmt.Sprint("group-", n), fmt.Sprint("host-", n), "servers")
		if err := c.versions.remember(fmt.Sprintf("https://host-%d/v2.1/", n), "2.96", nil); err != nil {
			t.Fatal(err)
		}
	}
	for n := range many / 10 {
		send("", "own", fmt.Sprint("path-", n))
	}
	if got := seriesIn(t, registry); got < many {
		t.Fatalf("%d series, want one of each group at least", got)
	}
	busy := c.limiter.line(endpointKey{Network, "busy"}, posts)
	busy.inFlight++
	time.Sleep(31 * time.Minute)
	send("", "own", "servers")
	sweep()
	if n, versions := len(c.limiter.endpoints), len(c.versions.newest); n != 2 || versions != 0 {
		t.Errorf("%d endpoints and %d microversions are left, want the endpoint in use and the one with a request in flight", n, versions)
	}
	if n := len(c.limiter.endpoints[endpointKey{Compute, "own"}].lines); n != 1 {
		t.Errorf("%d lines are left at the endpoint, want 1", n)
	}
	busy.inFlight--
	sweep()
	if got := seriesIn(t, registry); got != start {
		t.Errorf("%d series, want %d", got, start)
	}
	if _, there := c.metrics.groups["living"]; !there {
		t.Error("the counters of a quiet group with Machines are gone")
	}
}
