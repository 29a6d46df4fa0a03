package openstack

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/machines/openstack/inventory"
)

// The metrics that are read off the projects when they are asked for.
var (
	ageDesc     = projectDesc("drover_openstack_inventory_age_seconds", "Time since the last list of a project's servers that succeeded was begun.")
	serversDesc = projectDesc("drover_openstack_servers", "Servers of this cluster that are known in a project.")
	heldDesc    = projectDesc("drover_openstack_held_servers", "Servers that are gone in such numbers that nothing is cleaned up before a person says so.")
	stuckDesc   = projectDesc("drover_openstack_stuck_deletions", "Servers whose deletion was asked for more than 10 minutes ago and that are still there.")
	quotaDesc   = projectDesc("drover_openstack_quotas_exhausted", "Services of a project whose quota was hit and is being watched.")
)

// projectDesc describes a gauge of a project. The ID of a project alone does not identify it: any Keystone can claim to have a
// project of that ID.
func projectDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"endpoint", "project", "region"}, nil)
}

// state collects the metrics of the projects when they are asked for.
type state struct{ projects func() []*inventory.Project }

// Describe sends the descriptions of the metrics.
func (s state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ageDesc, serversDesc, heldDesc, stuckDesc, quotaDesc} {
		out <- d
	}
}

// Collect sends the metrics of all projects.
func (s state) Collect(out chan<- prometheus.Metric) {
	for _, p := range s.projects() {
		collect(p, out)
	}
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// collect sends the metrics of one project.
func collect(p *inventory.Project, out chan<- prometheus.Metric) {
	now, at := p.Statistics(), p.Site()
	labels := []string{p.Endpoint(), at.Project, at.Region}
	if now.Listed {
		out <- gauge(ageDesc, now.Age.Seconds(), labels...)
	}
	out <- gauge(serversDesc, float64(now.Servers), labels...)
	out <- gauge(stuckDesc, float64(now.Stuck), labels...)
	out <- gauge(heldDesc, float64(now.Held), labels...)
	out <- gauge(quotaDesc, float64(now.Quotas), labels...)
}
