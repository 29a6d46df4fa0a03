package freeze

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/patch"
)

// writes carries out the changes that converge returns.
type writes struct {
	patch.Writer
	events events.EventRecorder
}

// frozenStatus is the part of an object's status that the freeze controller writes.
type frozenStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
}

// carryOut writes one change: first the condition, from which a new leader continues, and then the label and the
// annotations in one write.
func (w writes) carryOut(ctx context.Context, c change, v Verdict) error {
	kind, err := w.Client.GroupVersionKindFor(c.object)
	if err != nil {
		return fmt.Errorf("looking up the kind: %w", err)
	}
	if c.condition != nil {
		c.condition.LastTransitionTime = metav1.NewTime(c.condition.LastTransitionTime.Truncate(time.Second))
		if err := w.ApplyStatus(ctx, c.object, &frozenStatus{[]metav1.Condition{*c.condition}}); err != nil {
			return fmt.Errorf("writing the condition Frozen of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(c.object), err)
		}
	}
	if metadata := metadataOf(c); len(metadata) > 0 {
		// The patch names the UID, not the resourceVersion, because writing the condition has changed the resourceVersion.
		metadata["uid"] = c.object.GetUID()
		written := c.object.DeepCopyObject().(client.Object)
		if err := w.Merge(ctx, written, map[string]any{"metadata": metadata}); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("labeling %s %s: %w", kind.Kind, client.ObjectKeyFromObject(c.object), err))
		}
	}
	w.report(ctx, c, v, kind.Kind)
	return nil
}

// metadataOf returns the metadata fields that a change writes; a nil value removes a field.
func metadataOf(c change) map[string]any {
	metadata := map[string]any{}
	if c.label != nil {
		var value any
		if *c.label {
			value = v1alpha1.Frozen
		}
		metadata["labels"] = map[string]any{v1alpha1.LabelFreeze: value}
	}
	if len(c.remove) > 0 {
		annotations := map[string]any{}
		for _, k := range c.remove {
			annotations[k] = nil
		}
		metadata["annotations"] = annotations
	}
	return metadata
}

// report records an Event and writes a log line for each object whose condition or label was changed.
func (w writes) report(ctx context.Context, c change, v Verdict, kind string) {
	log := ctrl.LoggerFrom(ctx).WithValues("kind", kind, "name", c.object.GetName())
	if c.condition == nil && c.label == nil {
		log.Info("Removed the annotation that ends a freeze: the object is not frozen", "annotations", c.remove)
		return
	}
	reason, message := v.Reason, v.Message
	if reason == "" {
		reason, message = ReasonWithin, "the group is not frozen"
	}
	log.Info("Changed the condition Frozen of an object", "frozen", v.Frozen, "reason", reason, "message", message)
	if v.Frozen {
		w.events.Eventf(c.object, nil, "Warning", "Froze"+kind, "Freeze", "%s", message)
		return
	}
	w.events.Eventf(c.object, nil, "Normal", "Unfroze"+kind, "Unfreeze", "%s", message)
}
