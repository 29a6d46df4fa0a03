package health

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/machines/health/verdict"
)

// metrics are the metrics of this package. The leader sets the gauges in each round.
type metrics struct {
	unhealthy prometheus.Gauge
	replacing prometheus.Gauge
	held      *prometheus.GaugeVec
	replaced  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		unhealthy: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "drover_health_unhealthy_machines", Help: "Machines whose Node was well once and is unhealthy or missing.",
		}),
		replacing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "drover_health_replacing_machines", Help: "Machines that are being replaced because they were unhealthy, until their successor is Ready or its time is over.",
		}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_health_held_machines", Help: "Machines that have been unhealthy for longer than their timeout, or have no timeout, and are not replaced; by the brake that prevents the replacement.",
		}, []string{"brake"}),
		replaced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_health_replaced_total", Help: "Machines deleted for their sets to replace, by reason.",
		}, []string{"reason"}),
	}
	m.show(&verdict.Plan{}, time.Time{})
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.unhealthy, m.replacing, m.held, m.replaced} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of health: %w", err)
		}
	}
	return m, nil
}

// show sets the gauges to the numbers of a plan.
func (m *metrics) show(plan *verdict.Plan, now time.Time) {
	m.unhealthy.Set(float64(plan.Unhealthy))
	m.replacing.Set(float64(plan.Replacing))
	held := map[verdict.Brake]int{}
	for _, v := range plan.Verdicts {
		if v.Brake != "" && !v.Due.After(now) {
			held[v.Brake]++
		}
	}
	for _, b := range verdict.Brakes {
		m.held.WithLabelValues(string(b)).Set(float64(held[b]))
	}
}
