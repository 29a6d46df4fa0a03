package client

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count and time the requests to the cloud.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu sync.Mutex
	// groups are the counters of each group.
	groups map[string]*counters
}

// counters are the counters of one group: the values of their labels, and when one of them was last raised.
type counters struct {
	labels   map[[4]string]bool
	lastUsed time.Time
}

// newMetrics returns the metrics of requests, and registers them and the gauges of the limiter unless registry is nil.
func newMetrics(registry prometheus.Registerer, limiter prometheus.Collector) (*metrics, error) {
	m := &metrics{
		groups: map[string]*counters{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_openstack_requests_total",
			Help: "Requests to OpenStack, tokens and repeated ones included; code is the HTTP status, or error without one; group is the node group that it was made for, empty for what is for all.",
		}, []string{"service", "verb", "code", "group"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "drover_openstack_request_duration_seconds",
			Help:    "Time from sending a request to OpenStack to the head of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 13),
		}, []string{"service", "verb"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, limiter} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count counts a request that was made for a group.
func (m *metrics) count(s Service, verb, code, group string, now time.Time) {
	labels := [4]string{string(s), verb, code, group}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.groups[group]
	if of == nil {
		of = &counters{labels: map[[4]string]bool{}}
		m.groups[group] = of
	}
	of.labels[labels], of.lastUsed = true, now
	m.requests.WithLabelValues(labels[:]...).Inc()
}

// sweep drops the counters of groups that were last counted for before a time and are not living any more.
func (m *metrics) sweep(before time.Time, living func(group string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.groups, func(group string, of *counters) bool {
		if group == "" || !of.lastUsed.Before(before) || living(group) {
			return false
		}
		for labels := range of.labels {
			m.requests.DeleteLabelValues(labels[:]...)
		}
		return true
	})
}

// The gauges of the limiter; they are read when somebody asks.
var (
	limitDesc    = kindDesc("drover_openstack_concurrency_limit", "Requests of a kind that may be in flight at an endpoint, as found from latency.")
	inFlightDesc = kindDesc("drover_openstack_in_flight", "Requests of a kind that are in flight, or about to be sent.")
	waitingDesc  = kindDesc("drover_openstack_waiting", "Requests of a kind that wait for their turn.")
	rateDesc     = prometheus.NewDesc("drover_openstack_rate_limit", "Requests per second that an endpoint takes, as learned from its refusals; 0: no bound is known.", []string{"service", "host"}, nil)
	restDesc     = prometheus.NewDesc("drover_openstack_rest_seconds", "How long an endpoint still wants to be left alone.", []string{"service", "host"}, nil)
)

func kindDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"service", "host", "verb", "resource"}, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Describe names the gauges.
func (l *limits) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, inFlightDesc, waitingDesc, rateDesc, restDesc} {
		out <- d
	}
}

// Collect reads the gauges.
func (l *limits) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.endpoints {
		e.collect(out, string(key.service), key.host)
	}
}

func (e *endpointLimiter) collect(out chan<- prometheus.Metric, service, host string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out <- gauge(rateDesc, e.rate.PerSecond(), service, host)
	out <- gauge(restDesc, e.rate.Paused(e.clock.Now()).Seconds(), service, host)
	for kind, q := range e.queues {
		labels := []string{service, host, kind.verb, kind.collection}
		out <- gauge(limitDesc, float64(q.concurrency.Limit()), labels...)
		out <- gauge(inFlightDesc, float64(q.inFlight), labels...)
		out <- gauge(waitingDesc, float64(q.line.Len()+len(q.called)), labels...)
	}
}
