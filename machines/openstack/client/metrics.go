package client

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts and times the requests to the cloud.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu sync.Mutex
	// groups holds when a request of each group was last counted.
	groups map[string]time.Time
}

// newMetrics returns the metrics of requests. It registers these and the collectors in others, unless registry is nil.
func newMetrics(registry prometheus.Registerer, others ...prometheus.Collector) (*metrics, error) {
	m := &metrics{
		groups: map[string]time.Time{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_openstack_requests_total",
			Help: "Requests to OpenStack, including retries and token requests; code is the HTTP status, or error if there is none; group is the node group of the request, empty when it is for all groups.",
		}, []string{"service", "verb", "code", "group"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drover_openstack_request_duration_seconds",
			Help:    "Time from sending a request to OpenStack to its response headers.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 13),
		}, []string{"service", "verb"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range append([]prometheus.Collector{m.requests, m.duration}, others...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count counts a request of a group.
func (m *metrics) count(s Service, verb, code, group string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups[group] = now
	m.requests.WithLabelValues(string(s), verb, code, group).Inc()
}

// sweep removes the counters of groups that do not exist any more and were last counted before the given time.
func (m *metrics) sweep(before time.Time, living func(group string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for group, lastUsed := range m.groups {
		if group != "" && lastUsed.Before(before) && !living(group) {
			m.requests.DeletePartialMatch(prometheus.Labels{"group": group})
			delete(m.groups, group)
		}
	}
}

// Descriptions of the limiter's gauges, which are read at each scrape.
var (
	limitDesc    = kindDesc("drover_openstack_concurrency_limit", "Requests of a kind that may be in flight at an endpoint: 16 at first, up to 64 with prompt answers, less after refusals and requests without an answer.")
	inFlightDesc = kindDesc("drover_openstack_in_flight", "Requests of a kind that are in flight or about to be sent.")
	waitingDesc  = kindDesc("drover_openstack_waiting", "Requests of a kind that wait for their turn.")
	restDesc     = prometheus.NewDesc("drover_openstack_rest_seconds", "Remaining time for which an endpoint asked to get no requests.", []string{"service", "host"}, nil)
)

func kindDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"service", "host", "verb", "resource"}, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Describe sends the descriptions of the gauges.
func (l *limiter) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, inFlightDesc, waitingDesc, restDesc} {
		out <- d
	}
}

// Collect sends the values of the gauges.
func (l *limiter) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, e := range l.endpoints {
		service := string(at.service)
		out <- gauge(restDesc, e.paused(l.clock.Now()).Seconds(), service, at.host)
		for kind, of := range e.lines {
			labels := []string{service, at.host, kind.verb, kind.collection}
			out <- gauge(limitDesc, math.Floor(of.limit), labels...)
			out <- gauge(inFlightDesc, float64(of.inFlight), labels...)
			out <- gauge(waitingDesc, float64(len(of.waiting)+of.called), labels...)
		}
	}
}
