package autoscale

import "github.com/prometheus/client_golang/prometheus"

// newCalls makes the histogram of calls by method and status code. Its buckets start low because most answers take a few microseconds.
func newCalls(registry prometheus.Registerer) *prometheus.HistogramVec {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "drover_grpc_seconds", Help: "Time that a call of the autoscaler took in drover, by method and status code.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
	}, []string{"method", "code"})
	if registry != nil {
		registry.MustRegister(calls)
	}
	return calls
}
