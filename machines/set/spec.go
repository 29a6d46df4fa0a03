package set

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// replaceNegativeSize replaces a negative size of a set by the number of its living Machines. For a set of a deployment, the
// deployment controller does this. Only CRDs of older versions accept a negative size. If the CRD has the scale subresource, the
// API server refuses any other write to such a set, including a write of its status.
func (r *Reconciler) replaceNegativeSize(ctx context.Context, set *v1alpha1.MachineSet) error {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	machines, err := r.owned(ctx, set)
	if err != nil {
		return err
	}
	removals := r.removals(set)
	living := slices.DeleteFunc(machines, func(m *v1alpha1.Machine) bool {
		named := slices.ContainsFunc(removals, func(removal v1alpha1.Removal) bool { return removal.UID == m.UID })
		return named || !m.DeletionTimestamp.IsZero()
	})
	r.events.Eventf(set, nil, "Warning", reasonInvalid, "Reconcile", "spec.replicas was %d, which must not be negative; it is set to %d, the number of living Machines", *set.Spec.Replicas, len(living))
	err = r.writer.Merge(ctx, set, map[string]any{
		"metadata": ownership.Metadata(set), "spec": map[string]any{"replicas": len(living)},
	})
	if err != nil {
		return fmt.Errorf("replacing a negative size: %w", err)
	}
	return nil
}

// removals returns the set's spec.removals. For a set without a deployment it adds the entries that a client dropped from
// spec.removals.
func (r *Reconciler) removals(set *v1alpha1.MachineSet) []v1alpha1.Removal {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return set.Spec.Removals
	}
	named, _ := r.named.Of(set)
	return v1alpha1.MergeRemovals(set.Spec.Removals, named)
}

// writeOwned writes the spec fields that the controller owns in a set without a deployment: the size when no client sets it, and
// spec.removals without the entries whose Machines are deleted. It also restores both fields when a client that does not know them
// has removed them.
func (r *Reconciler) writeOwned(ctx context.Context, set *v1alpha1.MachineSet, d decision, wait *time.Duration, machines []*v1alpha1.Machine) error {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	spec := map[string]any{}
	if d.restore {
		spec["replicas"] = d.wanted
	}
	kept, next := rollout.PruneRemovals(r.removals(set), machines, r.clock.Now())
	*wait = rollout.Soonest(*wait, next)
	r.named.Keep(set, kept)
	if !rollout.SameRemovals(kept, set.Spec.Removals) {
		spec["removals"] = kept
	}
	if series := set.Status.LastPlaceholderSeries; set.Spec.PlaceholderSeries == nil && series != nil {
		spec["placeholderSeries"] = *series
	}
	if len(spec) == 0 {
		return nil
	}
	err := r.writer.Merge(ctx, set, map[string]any{
		"metadata": ownership.Metadata(set), "spec": spec,
	})
	if err != nil {
		return fmt.Errorf("writing the set's size, removals and placeholder series: %w", err)
	}
	return nil
}
