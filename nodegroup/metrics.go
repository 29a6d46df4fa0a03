package nodegroup

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/nodegroup/model"
)

// metrics are the package's metrics.
type metrics struct {
	build   prometheus.Histogram
	unsound prometheus.Counter
	changes *prometheus.CounterVec
	refused *prometheus.CounterVec
	moved   *prometheus.CounterVec

	mu sync.Mutex
	// counted holds the time of the last change of each group that has counters, by id of the group.
	counted map[string]time.Time
}

// keepSeries is how long the counters of a deleted group are kept after its last change.
const keepSeries = 30 * time.Minute

var (
	descSize = prometheus.NewDesc("drover_nodegroup_size", "Target size of a node group, as the autoscaler receives it.", []string{"group"}, nil)
	descMin  = prometheus.NewDesc("drover_nodegroup_min_size", "Minimum of a node group.", []string{"group"}, nil)
	descMax  = prometheus.NewDesc("drover_nodegroup_max_size", "Maximum of a node group.", []string{"group"}, nil)
	descBad  = prometheus.NewDesc("drover_nodegroup_invalid", "1 for an object with bounds that cannot be read, which is therefore not a node group.", []string{"group"}, nil)
	descWait = prometheus.NewDesc("drover_nodegroup_awaited", "Units of a node group that have neither node nor error.", []string{"group"}, nil)
)

func newMetrics() *metrics {
	return &metrics{
		counted: map[string]time.Time{},
		build: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_nodegroup_snapshot_seconds", Help: "Time to bring the snapshot of the node groups up to date.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
		}),
		unsound: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_nodegroup_unsound_total", Help: "Snapshots that broke an invariant and were not published.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_nodegroup_changes_total", Help: "Writes for the autoscaler, by group and call.",
		}, []string{"group", "call"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_nodegroup_refused_total", Help: "Changes that were refused or failed, by call and kind of error; Unavailable includes those with an unknown outcome.",
		}, []string{"call", "kind"}),
		moved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_nodegroup_machines_total", Help: "Machines by which the autoscaler has raised or lowered sizes.",
		}, []string{"group", "direction"}),
	}
}

// register registers the metrics of the package, and the metrics of each group in the store. It does nothing
// when registry is nil.
func (m *metrics) register(registry prometheus.Registerer, s *store) {
	if registry != nil {
		registry.MustRegister(collector{s}, m.build, m.unsound, m.changes, m.refused, m.moved)
	}
}

func (m *metrics) built(took time.Duration) { m.build.Observe(took.Seconds()) }

// changed counts a write that changed a group's size; before and after are the two sizes.
func (m *metrics) changed(group, call string, before, after int32, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted[group] = now
	m.changes.WithLabelValues(group, call).Inc()
	if after > before {
		m.moved.WithLabelValues(group, "up").Add(float64(after - before))
	} else if before > after {
		m.moved.WithLabelValues(group, "down").Add(float64(before - after))
	}
}

// sweep removes the counters of groups that no longer exist and have not been changed for keepSeries.
func (m *metrics) sweep(living map[string]*model.Group, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.counted, func(group string, last time.Time) bool {
		if living[group] != nil || now.Sub(last) < keepSeries {
			return false
		}
		m.changes.DeletePartialMatch(prometheus.Labels{"group": group})
		m.moved.DeletePartialMatch(prometheus.Labels{"group": group})
		return true
	})
}

func (m *metrics) failed(call string, err error) {
	kind := string(model.KindOf(err))
	if kind == "" {
		kind = "Other"
	}
	m.refused.WithLabelValues(call, kind).Inc()
}

// collector collects the metrics of each group.
type collector struct{ store *store }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSize, descMin, descMax, descWait, descBad} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It reads the values that the autoscaler would receive now.
func (c collector) Collect(out chan<- prometheus.Metric) {
	v := c.store.view.Load()
	for id, g := range v.Snapshot.Groups {
		if g.Invalid {
			out <- prometheus.MustNewConstMetric(descBad, prometheus.GaugeValue, 1, id)
		}
	}
	for _, e := range v.Entries {
		for d, value := range map[*prometheus.Desc]int32{descSize: e.Target, descMin: e.Low, descMax: e.High, descWait: e.Awaited} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), e.ID)
		}
	}
}
