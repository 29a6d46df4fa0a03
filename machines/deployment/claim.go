package deployment

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// controllerIndex finds sets and Machines by the UID of their controller.
const controllerIndex = "machinedeployment.controller"

// writer writes under this controller's name.
func (r *Reconciler) writer() ownership.Writer {
	return ownership.Writer{Client: r.client, FieldManager: FieldManager}
}

// claim returns the sets that belong to the deployment, with their Machines: those that it controls, without the ones
// whose labels no longer match, which are released, and with matching orphans, which are adopted (MC-30). They belong
// to the cache and must not be changed.
func (r *Reconciler) claim(ctx context.Context, d *v1alpha1.MachineDeployment) ([]rollout.SetState, error) {
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil, nil // the planner refuses it
	}
	owned, err := r.sets(ctx, d.Namespace, string(d.UID))
	if err != nil {
		return nil, err
	}
	var mine []*v1alpha1.MachineSet
	for _, set := range owned {
		if selector.Matches(labels.Set(set.Labels)) || !set.DeletionTimestamp.IsZero() {
			mine = append(mine, set)
			continue
		}
		ctrl.LoggerFrom(ctx).Info("releasing a set whose labels no longer match", "set", set.Name)
		refs := slices.DeleteFunc(slices.Clone(set.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == d.UID })
		if _, err := r.writeOwners(ctx, set, refs); err != nil {
			return nil, err
		}
	}
	orphans, err := r.sets(ctx, d.Namespace, ownership.NoController)
	if err != nil {
		return nil, err
	}
	for _, set := range orphans {
		if !selector.Matches(labels.Set(set.Labels)) || !set.DeletionTimestamp.IsZero() {
			continue
		}
		adopted, err := r.adopt(ctx, d, set)
		if err != nil {
			return nil, err
		}
		mine = append(mine, adopted)
	}
	return r.withMachines(ctx, mine)
}

func (r *Reconciler) withMachines(ctx context.Context, sets []*v1alpha1.MachineSet) ([]rollout.SetState, error) {
	states := make([]rollout.SetState, len(sets))
	for i, set := range sets {
		var list v1alpha1.MachineList
		err := r.client.List(ctx, &list, client.InNamespace(set.Namespace),
			client.MatchingFields{controllerIndex: string(set.UID)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing Machines: %w", err)
		}
		states[i] = rollout.SetState{Set: set, Machines: make([]*v1alpha1.Machine, len(list.Items))}
		for j := range list.Items {
			states[i].Machines[j] = &list.Items[j]
		}
		named, _ := r.rolled.Of(set)
		states[i].Named = rollout.PresentRemovals(named, states[i].Machines)
		r.rolled.Keep(set, states[i].Named)
	}
	return states, nil
}

func (r *Reconciler) sets(ctx context.Context, namespace, controller string) ([]*v1alpha1.MachineSet, error) {
	var list v1alpha1.MachineSetList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{controllerIndex: controller}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	sets := make([]*v1alpha1.MachineSet, len(list.Items))
	for i := range list.Items {
		sets[i] = &list.Items[i]
	}
	return sets, nil
}

// adopt makes the deployment a set's controller, unless the deployment is gone by now.
func (r *Reconciler) adopt(ctx context.Context, d *v1alpha1.MachineDeployment, set *v1alpha1.MachineSet) (*v1alpha1.MachineSet, error) {
	var now v1alpha1.MachineDeployment
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(d), &now); err != nil {
		return nil, fmt.Errorf("looking at the deployment before adopting: %w", err)
	}
	if now.UID != d.UID || !now.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("adopting MachineSet %s: the deployment is being deleted", set.Name)
	}
	ctrl.LoggerFrom(ctx).Info("adopting a set", "set", set.Name)
	return r.writeOwners(ctx, set, append(slices.Clone(set.OwnerReferences), *metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)))
}

func (r *Reconciler) writeOwners(ctx context.Context, set *v1alpha1.MachineSet, refs []metav1.OwnerReference) (*v1alpha1.MachineSet, error) {
	written := set.DeepCopy()
	err := r.writer().Patch(ctx, written, map[string]any{"metadata": map[string]any{
		"uid": set.UID, "resourceVersion": set.ResourceVersion, "ownerReferences": refs,
	}})
	if err != nil {
		return nil, fmt.Errorf("writing the owner of MachineSet %s: %w", set.Name, err)
	}
	return written, nil
}
