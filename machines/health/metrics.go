package health

import (
	"errors"
	"fmt"

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
	for _, b := range verdict.Brakes {
		m.held.WithLabelValues(string(b))
	}
	if registry == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.unhealthy, m.replacing, m.held, m.replaced} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the metrics of health: %w", err)
	}
	return m, nil
}

// show sets the gauges to the numbers of a plan.
func (m *metrics) show(plan *verdict.Plan) {
	m.unhealthy.Set(float64(plan.Unhealthy))
	replacing := 0
	for i := range plan.Groups {
		replacing += len(plan.Groups[i].Replacements)
	}
	m.replacing.Set(float64(replacing))
	held := map[verdict.Brake]int{}
	for _, v := range plan.Verdicts {
		if v.Brake != "" && v.Overdue {
			held[v.Brake]++
		}
	}
	for _, b := range verdict.Brakes {
		m.held.WithLabelValues(string(b)).Set(float64(held[b]))
	}
}
