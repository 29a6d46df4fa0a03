package openstack

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// gauges are computed from the projects at each scrape.
var gauges = []struct {
	*prometheus.Desc
	of func(state.Statistics) int
}{
	{projectDesc("drover_openstack_servers", "Servers of this cluster that are known in a project."), func(s state.Statistics) int { return s.Servers }},
	{projectDesc("drover_openstack_held_servers", "Machines that have lost their servers while these are too many at once: those with a Ready Node are not replaced."), func(s state.Statistics) int { return s.Held }},
	{projectDesc("drover_openstack_stuck_deletions", "Servers that still exist 10 minutes after their deletion was requested."), func(s state.Statistics) int { return s.Stuck }},
	{projectDesc("drover_openstack_quotas_exhausted", "Services of a project whose quota is exhausted and watched for free capacity."), func(s state.Statistics) int { return s.Quotas }},
}

// ageDesc describes the gauge that a project has after its first list.
var ageDesc = projectDesc("drover_openstack_inventory_age_seconds", "Time since the start of the last successful list of a project's servers.")

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
	out <- ageDesc
	for _, g := range gauges {
		out <- g.Desc
	}
}

// Collect sends the metrics of all projects.
func (c projectCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.projects() {
		var now state.Statistics
		p.With(func(s *state.Project) { now = s.Statistics(c.clock.Now()) })
		send := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, p.Endpoint(), p.Site().Project, p.Site().Region)
		}
		if now.Listed {
			send(ageDesc, now.Age.Seconds())
		}
		for _, g := range gauges {
			send(g.Desc, float64(g.of(now)))
		}
	}
}
