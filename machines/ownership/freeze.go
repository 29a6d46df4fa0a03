package ownership

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Freezes shows which objects of a kind, MachineSet or MachineDeployment, are frozen: with a label, an Event for each change of the label, and a metric. A
// frozen set makes no Machine, because there are already far more than its size allows. A deployment is frozen while one of its sets is.
type Freezes struct {
	Kind   string
	Writer Writer
	Events events.EventRecorder
	// Metric is the metric of frozen objects (see [NewFrozenMetric]). nil means that there is none.
	Metric *prometheus.GaugeVec
}

// NewFrozenMetric returns the metric of frozen objects, which all controllers share.
func NewFrozenMetric() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drover_frozen",
		Help: "1 for each MachineDeployment and MachineSet that is frozen, because there are far more Machines than its size allows: it creates none. An object that is not frozen has no series.",
	}, []string{"kind", "namespace", "name"})
}

// Show sets or removes the label of an object. why explains why the object is frozen; it is empty when it is not. Show also removes the
// annotations that lift a freeze, in the same write. It updates the object from the answer.
func (f Freezes) Show(ctx context.Context, o client.Object, why string) error {
	frozen, labelled := why != "", o.GetLabels()[v1alpha1.LabelFreeze] == v1alpha1.Frozen
	if !frozen {
		f.Forget(client.ObjectKeyFromObject(o))
	} else if f.Metric != nil {
		f.Metric.WithLabelValues(f.Kind, o.GetNamespace(), o.GetName()).Set(1)
	}
	metadata, lifts := map[string]any{"uid": o.GetUID()}, Unfreezes(o)
	if len(lifts) > 0 {
		metadata["annotations"] = lifts
	}
	if frozen != labelled {
		metadata["labels"] = map[string]any{v1alpha1.LabelFreeze: nil}
		if frozen {
			metadata["labels"] = map[string]any{v1alpha1.LabelFreeze: v1alpha1.Frozen}
		}
	}
	if len(metadata) == 1 {
		return nil
	}
	if err := f.Writer.Merge(ctx, o, map[string]any{"metadata": metadata}); err != nil {
		return fmt.Errorf("writing the label %s: %w", v1alpha1.LabelFreeze, err)
	}
	switch {
	case frozen == labelled:
	case frozen:
		f.Events.Eventf(o, nil, "Warning", "Froze"+f.Kind, "Freeze", "%s", why)
	default:
		f.Events.Eventf(o, nil, "Normal", "Unfroze"+f.Kind, "Unfreeze", "no Machine is missing because of a freeze any more, or an annotation has lifted it")
	}
	return nil
}

// Forget removes an object from the metric.
func (f Freezes) Forget(object types.NamespacedName) {
	if f.Metric != nil {
		f.Metric.DeleteLabelValues(f.Kind, object.Namespace, object.Name)
	}
}

// Unfreezes returns the annotations of an object that lift a freeze once, as keys with the value nil.
func Unfreezes(o client.Object) map[string]any {
	found := map[string]any{}
	for _, key := range []string{v1alpha1.AnnotationUnfreeze, v1alpha1.AnnotationUnfreezeMCM} {
		if _, ok := o.GetAnnotations()[key]; ok {
			found[key] = nil
		}
	}
	return found
}
