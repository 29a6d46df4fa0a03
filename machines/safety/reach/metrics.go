package reach

import "github.com/prometheus/client_golang/prometheus"

var descFrozen = prometheus.NewDesc("drover_frozen_api",
	"1 while no Machine or server is created, no Machine is replaced and no orphan is deleted, because the API server of this cluster (control or target) cannot be reached or has only just answered again, else 0.",
	[]string{"cluster"}, nil)

// Describe implements prometheus.Collector.
func (*Watch) Describe(out chan<- *prometheus.Desc) { out <- descFrozen }

// Collect implements prometheus.Collector.
func (w *Watch) Collect(out chan<- prometheus.Metric) {
	for cluster, s := range w.states() {
		value := 0.0
		if s.Frozen {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(descFrozen, prometheus.GaugeValue, value, cluster)
	}
}
