package openstack

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// service is one of the cloud's APIs.
type service string

const (
	identityService service = "identity"
	computeService  service = "compute"
	networkService  service = "network"
	imageService    service = "image"
)

type serviceKey struct{}

// withService says which API the calls under ctx go to.
func withService(ctx context.Context, s service) context.Context {
	return context.WithValue(ctx, serviceKey{}, s)
}

// serviceOf tells what a request is for. A token may be asked for in the middle of any other call.
func serviceOf(req *http.Request) service {
	if s, ok := req.Context().Value(serviceKey{}).(service); ok && !strings.HasSuffix(req.URL.Path, "/auth/tokens") {
		return s
	}
	return identityService
}

// metrics count what is asked of the cloud.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics makes the metrics, and registers them unless registry is nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_openstack_requests_total",
			Help: "Requests to OpenStack, tokens and repeated ones included; code is the HTTP status, or error without one.",
		}, []string{"service", "verb", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drover_openstack_request_duration_seconds",
			Help:    "Time from sending a request to OpenStack to the head of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 13),
		}, []string{"service", "verb"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// transport counts, times and limits every request.
type transport struct {
	next    http.RoundTripper
	limiter *limiter
	metrics *metrics
	clock   clock.Clock
}

// RoundTrip sends one request when its endpoint's gate lets it through.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := serviceOf(req)
	gate := t.limiter.gate(s, req.URL.Host)
	if err := gate.enter(req.Context(), t.clock.Now()); err != nil {
		return nil, err
	}
	defer gate.leave()
	start := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	t.metrics.duration.WithLabelValues(string(s), req.Method).Observe(t.clock.Since(start).Seconds())
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
		if wait := pauseAfter(resp.StatusCode, resp.Header); wait > 0 {
			gate.pause(t.clock.Now().Add(wait))
		}
	}
	t.metrics.requests.WithLabelValues(string(s), req.Method, code).Inc()
	return resp, err
}

// impliedPause is how long an endpoint rests after a 429 that does not say.
const impliedPause = time.Second

// pauseAfter tells how long an answer asks us to stay away; 0 when it does not.
func pauseAfter(status int, header http.Header) time.Duration {
	wait := retryAfter(header)
	switch {
	case status == http.StatusTooManyRequests && wait == 0:
		return impliedPause
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return wait
	}
	return 0
}

// retryAfter reads the header in either form: seconds, or a date, which is taken against the answer's own Date.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	until, err := http.ParseTime(text)
	now, nowErr := http.ParseTime(header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}
