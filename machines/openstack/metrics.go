package openstack

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what is asked of the cloud.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics makes the metrics, and registers them, and those of the state, unless registry is nil.
func newMetrics(registry prometheus.Registerer, state prometheus.Collector) (*metrics, error) {
	m := &metrics{
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
	for _, c := range []prometheus.Collector{m.requests, m.duration, state} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// What is read off the state when somebody asks.
var (
	limitDesc    = kindDesc("drover_openstack_concurrency_limit", "Requests of a kind that may be in flight at an endpoint, as found from latency.")
	inFlightDesc = kindDesc("drover_openstack_in_flight", "Requests of a kind that are in flight, or about to be sent.")
	waitingDesc  = kindDesc("drover_openstack_waiting", "Requests of a kind that wait for their turn.")
	rateDesc     = prometheus.NewDesc("drover_openstack_rate_limit", "Requests per second that an endpoint takes, as learned from its refusals; 0: no bound is known.", []string{"service", "host"}, nil)
	restDesc     = prometheus.NewDesc("drover_openstack_rest_seconds", "How long an endpoint still wants to be left alone.", []string{"service", "host"}, nil)
	ageDesc      = projectDesc("drover_openstack_inventory_age_seconds", "Time since the last list of a project's servers that succeeded was begun.")
	serversDesc  = projectDesc("drover_openstack_servers", "Servers of this cluster that are known in a project.")
	heldDesc     = projectDesc("drover_openstack_held_servers", "Servers that are gone in such numbers that nothing is cleaned up before a person says so.")
	stuckDesc    = projectDesc("drover_openstack_stuck_deletions", "Servers whose deletion was asked for more than 10 minutes ago and that are still there.")
	quotaDesc    = projectDesc("drover_openstack_quotas_exhausted", "Services of a project whose quota was hit and is being watched.")
)

func kindDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"service", "host", "verb", "resource"}, nil)
}

func projectDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"project", "region"}, nil)
}

// stuckAfter is how long a deletion may take before it counts as stuck (CAPI-44).
const stuckAfter = 10 * time.Minute

// state shows what a Cloud knows as metrics.
type state struct{ cloud *Cloud }

// Describe names the metrics.
func (s state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, inFlightDesc, waitingDesc, rateDesc, restDesc, ageDesc, serversDesc, heldDesc, stuckDesc, quotaDesc} {
		out <- d
	}
}

// Collect reads them off.
func (s state) Collect(out chan<- prometheus.Metric) {
	s.cloud.limits.collect(out)
	for _, p := range s.cloud.allProjects() {
		p.collect(out)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (l *limits) collect(out chan<- prometheus.Metric) {
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

func (p *project) collect(out chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	servers, stuck := 0, 0
	for _, k := range p.inventory.servers {
		if k.gone || !p.hurriesFor(k) {
			continue
		}
		servers++
		if !k.firstAsked.IsZero() && now.Sub(k.firstAsked) > stuckAfter {
			stuck++
		}
	}
	labels := []string{p.name.project, p.name.region}
	if !p.lastList.IsZero() {
		out <- gauge(ageDesc, now.Sub(p.lastList).Seconds(), labels...)
	}
	out <- gauge(serversDesc, float64(servers), labels...)
	out <- gauge(stuckDesc, float64(stuck), labels...)
	out <- gauge(heldDesc, float64(len(p.guard.held)), labels...)
	out <- gauge(quotaDesc, float64(len(p.quota.watches)), labels...)
}
