package autoscale

import (
	"path"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/drover-project/drover/proto"
)

// calls is the histogram of calls by method and status code. A client makes thousands of calls for each change of a group.
// Therefore the time series of a method and code is looked up only once.
type calls struct {
	*prometheus.HistogramVec
	// known holds the time series of the protocol's methods, by full name and code. Each is looked up when it is first
	// needed.
	known map[string]*[codes.Unauthenticated + 1]atomic.Pointer[prometheus.Observer]
}

// newCalls makes the histogram. Its buckets start low because most answers take a few microseconds.
func newCalls(registry prometheus.Registerer) *calls {
	c := &calls{
		HistogramVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_grpc_seconds", Help: "Time that a call of the autoscaler took in drover, by method and status code.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
		}, []string{"method", "code"}),
		known: map[string]*[codes.Unauthenticated + 1]atomic.Pointer[prometheus.Observer]{},
	}
	service := proto.CloudProvider_ServiceDesc
	for _, m := range service.Methods {
		c.known["/"+service.ServiceName+"/"+m.MethodName] = &[codes.Unauthenticated + 1]atomic.Pointer[prometheus.Observer]{}
	}
	if registry != nil {
		registry.MustRegister(c)
	}
	return c
}

// took records the duration of a call.
func (c *calls) took(method string, code codes.Code, elapsed time.Duration) {
	series := c.known[method]
	if series == nil || int(code) >= len(series) {
		c.WithLabelValues(path.Base(method), code.String()).Observe(elapsed.Seconds())
		return
	}
	o := series[code].Load()
	if o == nil {
		made := c.WithLabelValues(path.Base(method), code.String())
		o = &made
		series[code].Store(o)
	}
	(*o).Observe(elapsed.Seconds())
}
