package freeze

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var descFrozen = prometheus.NewDesc("drover_frozen",
	"1 for each MachineDeployment and MachineSet that is frozen, because its group has far more Machines than its size allows: its sets create none. An object that is not frozen has no series.",
	[]string{"kind", "namespace", "name"}, nil)

// frozenGroups holds the groups that are frozen. The zero value is ready to use.
type frozenGroups struct {
	mu sync.Mutex
	// names holds the labels of the metric, for each object of a group.
	names map[key][][3]string
}

// set records whether a group is frozen.
func (f *frozenGroups) set(k key, g *Group, frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !frozen {
		delete(f.names, k)
		return
	}
	var names [][3]string
	for _, o := range g.objects() {
		names = append(names, [3]string{kindOf(o), o.GetNamespace(), o.GetName()})
	}
	if f.names == nil {
		f.names = map[key][][3]string{}
	}
	f.names[k] = names
}

// has reports whether a group is frozen.
func (f *frozenGroups) has(k key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[k] != nil
}

// all returns the labels of the metric for every frozen object.
func (f *frozenGroups) all() (all [][3]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, names := range f.names {
		all = append(all, names...)
	}
	return all
}

func kindOf(o client.Object) string {
	if _, ok := o.(*v1alpha1.MachineDeployment); ok {
		return v1alpha1.MachineDeploymentKind.Kind
	}
	return v1alpha1.MachineSetKind.Kind
}

// Describe implements prometheus.Collector.
func (f *frozenGroups) Describe(out chan<- *prometheus.Desc) { out <- descFrozen }

// Collect implements prometheus.Collector.
func (f *frozenGroups) Collect(out chan<- prometheus.Metric) {
	for _, name := range f.all() {
		out <- prometheus.MustNewConstMetric(descFrozen, prometheus.GaugeValue, 1, name[:]...)
	}
}
