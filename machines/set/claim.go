package set

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// controllerIndex finds Machines by the UID of their controller.
const controllerIndex = "machineset.controller"

// writer writes under this controller's name.
func (r *Reconciler) writer() ownership.Writer {
	return ownership.Writer{Client: r.client, FieldManager: FieldManager}
}

// owned lists the Machines that the set controls. They belong to the cache and must not be changed.
func (r *Reconciler) owned(ctx context.Context, set *v1alpha1.MachineSet) ([]*v1alpha1.Machine, error) {
	return r.indexed(ctx, set.Namespace, string(set.UID))
}

func (r *Reconciler) indexed(ctx context.Context, namespace, controller string) ([]*v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{controllerIndex: controller}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	machines := make([]*v1alpha1.Machine, len(list.Items))
	for i := range list.Items {
		machines[i] = &list.Items[i]
	}
	return machines, nil
}

// claim returns the Machines that belong to the set: those that it controls, without the ones whose labels no longer
// match, which are released, and with matching orphans, which are adopted (MC-30, MC-33).
func (r *Reconciler) claim(ctx context.Context, set *v1alpha1.MachineSet, selector labels.Selector) ([]*v1alpha1.Machine, error) {
	owned, err := r.owned(ctx, set)
	if err != nil {
		return nil, err
	}
	var mine []*v1alpha1.Machine
	for _, m := range owned {
		if selector.Matches(labels.Set(m.Labels)) || !m.DeletionTimestamp.IsZero() {
			mine = append(mine, m)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("releasing a Machine whose labels no longer match", "machine", m.Name)
		refs := slices.DeleteFunc(slices.Clone(m.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == set.UID })
		if err := r.writeOwners(ctx, m, refs, string(set.UID)); err != nil {
			return nil, err
		}
		r.pending.gone(client.ObjectKeyFromObject(set), m)
	}
	orphans, err := r.indexed(ctx, set.Namespace, ownership.NoController)
	if err != nil {
		return nil, err
	}
	for _, m := range orphans {
		if !selector.Matches(labels.Set(m.Labels)) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.adopt(ctx, set, m); err != nil {
			return nil, err
		}
		mine = append(mine, m)
	}
	return mine, nil
}

// adopt makes the set a Machine's controller, unless the set is gone by now.
func (r *Reconciler) adopt(ctx context.Context, set *v1alpha1.MachineSet, m *v1alpha1.Machine) error {
	var now v1alpha1.MachineSet
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(set), &now); err != nil {
		return fmt.Errorf("looking at the set before adopting: %w", err)
	}
	if now.UID != set.UID || !now.DeletionTimestamp.IsZero() {
		return fmt.Errorf("adopting Machine %s: the set is being deleted", m.Name)
	}
	ctrl.LoggerFrom(ctx).Info("adopting a Machine", "machine", m.Name)
	refs := append(slices.Clone(m.OwnerReferences), *metav1.NewControllerRef(set, v1alpha1.MachineSetKind))
	return r.writeOwners(ctx, m, refs, "")
}

// writeOwners writes a Machine's owners, and by which set it was released; empty takes that note off.
func (r *Reconciler) writeOwners(ctx context.Context, m *v1alpha1.Machine, refs []metav1.OwnerReference, releasedBy string) error {
	metadata := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion, "ownerReferences": refs}
	switch _, noted := m.Annotations[v1alpha1.AnnotationReleasedBy]; {
	case releasedBy != "":
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationReleasedBy: releasedBy}
	case noted:
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationReleasedBy: nil}
	}
	err := r.writer().Patch(ctx, m.DeepCopy(), map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("writing the owner of Machine %s: %w", m.Name, err)
	}
	return nil
}

// released counts the Machines that the set released and that are still there.
func (r *Reconciler) released(ctx context.Context, set *v1alpha1.MachineSet) (int, error) {
	var list v1alpha1.MachineList
	err := r.client.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingFields{releasedIndex: string(set.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return 0, fmt.Errorf("listing released Machines: %w", err)
	}
	return len(list.Items), nil
}

// heal gives a set whose stored size is negative the size that it has. A set of a deployment gets its size from there.
// Where the scale subresource is served, the API server refuses every other write to such a set, its status too; only
// CRDs of old let such a size in.
func (r *Reconciler) heal(ctx context.Context, set *v1alpha1.MachineSet) error {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	machines, err := r.owned(ctx, set)
	if err != nil {
		return err
	}
	living := slices.DeleteFunc(machines, func(m *v1alpha1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	r.events.Eventf(set, nil, "Warning", reasonInvalid, "Reconcile", "spec.replicas was %d: it must not be negative; %d is put there, as many as there are", *set.Spec.Replicas, len(living))
	err = r.writer().Patch(ctx, set, map[string]any{
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion}, "spec": map[string]any{"replicas": len(living)},
	})
	if err != nil {
		return fmt.Errorf("writing a size in the place of a negative one: %w", err)
	}
	return nil
}

// removals returns the set's spec.removals, for a set without a deployment with the entries that a client dropped from it.
func (r *Reconciler) removals(set *v1alpha1.MachineSet) []v1alpha1.Removal {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return set.Spec.Removals
	}
	named, _ := r.named.Of(set)
	return v1alpha1.MergeRemovals(set.Spec.Removals, named)
}

// ownSpec writes the spec fields of a set without a deployment that the controller owns: the size when no client sets it, and
// spec.removals without the entries that are over. It also restores fields that another client dropped because it does not know
// them.
func (r *Reconciler) ownSpec(ctx context.Context, set *v1alpha1.MachineSet, d decision, wait *time.Duration, machines []*v1alpha1.Machine) error {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return nil
	}
	spec := map[string]any{}
	if d.restore {
		spec["replicas"] = d.wanted
	}
	kept, next := rollout.PruneRemovals(r.removals(set), machines, r.clock.Now())
	*wait = soonest(*wait, next)
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
	err := r.writer().Patch(ctx, set, map[string]any{
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion}, "spec": spec,
	})
	if err != nil {
		return fmt.Errorf("writing the set's size, removals and placeholder series: %w", err)
	}
	return nil
}
