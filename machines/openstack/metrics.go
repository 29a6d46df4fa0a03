package openstack

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What is read off the state when somebody asks.
var (
	ageDesc     = projectDesc("drover_openstack_inventory_age_seconds", "Time since the last list of a project's servers that succeeded was begun.")
	serversDesc = projectDesc("drover_openstack_servers", "Servers of this cluster that are known in a project.")
	heldDesc    = projectDesc("drover_openstack_held_servers", "Servers that are gone in such numbers that nothing is cleaned up before a person says so.")
	stuckDesc   = projectDesc("drover_openstack_stuck_deletions", "Servers whose deletion was asked for more than 10 minutes ago and that are still there.")
	quotaDesc   = projectDesc("drover_openstack_quotas_exhausted", "Services of a project whose quota was hit and is being watched.")
)

func projectDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"project", "region"}, nil)
}

// stuckAfter is how long a deletion may take before it counts as stuck (CAPI-44).
const stuckAfter = 10 * time.Minute

// state shows what a Cloud knows as metrics.
type state struct{ cloud *Cloud }

// Describe names the metrics.
func (s state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ageDesc, serversDesc, heldDesc, stuckDesc, quotaDesc} {
		out <- d
	}
}

// Collect reads them off.
func (s state) Collect(out chan<- prometheus.Metric) {
	for _, p := range s.cloud.allProjects() {
		p.collect(out)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
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
