package openstack

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

func TestMetricsCountTheServersOfAProjectAndShowTheLimitsForCallsToTheCloud(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	b.options.Registry = registry
	b.restart()
	b.active(newMachine(t, "a", seedFields()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetGauge().GetValue()
		}
	}
	for name, fits := range map[string]func(float64) bool{
		"drover_openstack_inventory_age_seconds": func(v float64) bool { return v <= state.FastPeriod.Seconds()+1 },
		"drover_openstack_servers":               func(v float64) bool { return v == 1 },
		"drover_openstack_concurrency_limit":     func(v float64) bool { return v >= 5 },
		"drover_openstack_held_servers":          func(v float64) bool { return v == 0 },
		"drover_openstack_stuck_deletions":       func(v float64) bool { return v == 0 },
	} {
		if v, there := values[name]; !there || !fits(v) {
			t.Errorf("%s is %v (there: %v) (CAPI-58)", name, v, there)
		}
	}
}

// Any Keystone can return the project ID of another cloud. Two gauges with the same labels would make the whole scrape fail.
func TestMetricsOfProjectsWithTheSameID(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	registry := prometheus.NewRegistry()
	b.options.Registry = registry
	b.restart()
	b.active(newMachine(t, "a", seedFields()))
	for _, endpoint := range []string{b.sim.AuthURL(), other.sim.AuthURL()} {
		b.cloud.connections.attach(&connection{}, endpoint, func() followed {
			return followed{Project: inventory.New(inventory.Options{
				Clock: b.clock, Endpoint: endpoint, Site: state.Site{Project: "p", Region: "r"}, Cluster: testCluster, Machines: newRegistry(),
			})}
		})
	}
	t.Run("two projects of different clouds with the same ID have separate gauges (F-15)", func(t *testing.T) {
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	})
}
