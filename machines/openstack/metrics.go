package openstack

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Descriptions of the gauges that are computed from the projects at each scrape.
var (
	ageDesc     = projectDesc("drover_openstack_inventory_age_seconds", "Time since the start of the last successful list of a project's servers.")
	serversDesc = projectDesc("drover_openstack_servers", "Servers of this cluster that are known in a project.")
	heldDesc    = projectDesc("drover_openstack_held_servers", "Machines that have lost their servers while these are too many at once: those with a Ready Node are not replaced.")
	stuckDesc   = projectDesc("drover_openstack_stuck_deletions", "Servers that still exist 10 minutes after their deletion was requested.")
	quotaDesc   = projectDesc("drover_openstack_quotas_exhausted", "Services of a project whose quota is exhausted and watched for free capacity.")
)

// projectDesc returns the description of a gauge of a project. It has the endpoint as a label, because any Keystone can claim the
// same project ID.
func projectDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"endpoint", "project", "region"}, nil)
}

// projectCollector collects the metrics of the projects at each scrape.
type projectCollector struct {
	projects func() []*inventory.Project
	clock    clock.PassiveClock
}

// Describe sends the descriptions of the metrics.
func (c projectCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ageDesc, serversDesc, heldDesc, stuckDesc, quotaDesc} {
		out <- d
	}
}

// Collect sends the metrics of all projects.
func (c projectCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.projects() {
		collect(p, c.clock.Now(), out)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// collect sends the metrics of one project.
func collect(p *inventory.Project, at time.Time, out chan<- prometheus.Metric) {
	var now state.Statistics
	p.With(func(s *state.Project) { now = s.Statistics(at) })
	site := p.Site()
	labels := []string{p.Endpoint(), site.Project, site.Region}
	if now.Listed {
		out <- gauge(ageDesc, now.Age.Seconds(), labels...)
	}
	out <- gauge(serversDesc, float64(now.Servers), labels...)
	out <- gauge(stuckDesc, float64(now.Stuck), labels...)
	out <- gauge(heldDesc, float64(now.Held), labels...)
	out <- gauge(quotaDesc, float64(now.Quotas), labels...)
}
