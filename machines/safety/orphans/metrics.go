package orphans

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// metrics are the metrics of the collector.
type metrics struct {
	orphans, aborted *prometheus.GaugeVec
	collected        *prometheus.CounterVec
}

// newMetrics returns the metrics, and registers them.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		orphans: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_orphans", Help: "Resources with drover's owner tags, and Nodes with its labels, that had no Machine in the last round.",
		}, []string{"kind"}),
		aborted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_orphans_aborted", Help: "1 while orphans are not collected for this reason, else 0, as of the last round.",
		}, []string{"reason"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_orphans_collected_total", Help: "Accepted deletions of resources and Nodes that had no Machine.",
		}, []string{"kind"}),
	}
	for _, kind := range verdict.Kinds {
		m.orphans.WithLabelValues(label(kind))
		m.collected.WithLabelValues(label(kind))
	}
	if err := errors.Join(registry.Register(m.orphans), registry.Register(m.aborted), registry.Register(m.collected)); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return m, nil
}

// label returns the label value for a kind.
func label(kind cloud.ResourceKind) string { return strings.ReplaceAll(string(kind), " ", "_") }

// set sets the gauges according to a verdict. A round without a decision leaves the numbers of orphans unchanged.
func (m *metrics) set(v *verdict.Verdict) {
	for _, reason := range verdict.Reasons {
		m.aborted.WithLabelValues(string(reason)).Set(0)
	}
	for _, stop := range v.Stops {
		m.aborted.WithLabelValues(string(stop.Reason)).Set(1)
	}
	if !v.Judged {
		return
	}
	count := map[cloud.ResourceKind]int{}
	for i := range v.Orphans {
		count[v.Orphans[i].Kind]++
	}
	for _, kind := range verdict.Kinds {
		m.orphans.WithLabelValues(label(kind)).Set(float64(count[kind]))
	}
}
