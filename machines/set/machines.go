package set

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

const (
	// controllerIndex is the name of the index by which Machines are found by the UID of their controller.
	controllerIndex = "machineset.controller"
	// madeIndex is the name of the index by which Machines are found by the first part of their names.
	madeIndex = "machineset.made"
)

func baseOf(o client.Object) []string { return []string{v1alpha1.BaseOf(o.GetName())} }

// owned returns the Machines that the set controls. They belong to the informer cache and must not be changed.
func (r *Reconciler) owned(ctx context.Context, set *v1alpha1.MachineSet) ([]*v1alpha1.Machine, error) {
	return r.controlledBy(ctx, set.Namespace, string(set.UID))
}

func (r *Reconciler) controlledBy(ctx context.Context, namespace, controller string) ([]*v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{controllerIndex: controller}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	return ownership.Pointers(list.Items), nil
}

// lost counts the Machines that were made for the set and are not among own, the Machines that belong to it: their labels no longer match,
// or they have lost their owner. Machines that are being deleted do not count.
func (r *Reconciler) lost(ctx context.Context, set *v1alpha1.MachineSet, own []rollout.MachineFacts) (count int, err error) {
	var list v1alpha1.MachineList
	made := client.MatchingFields{madeIndex: v1alpha1.MachineBase(set.Name)}
	if err := r.client.List(ctx, &list, client.InNamespace(set.Namespace), made, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing Machines that were made for the set: %w", err)
	}
	owned := make(map[string]bool, len(own))
	for _, f := range own {
		owned[f.Machine.Name] = true
	}
	for i := range list.Items {
		if m := &list.Items[i]; m.DeletionTimestamp.IsZero() && !owned[m.Name] && !ofAnother(set, m) {
			count++
		}
	}
	return count, nil
}

// ofAnother reports whether a Machine belongs to another set that gives such names, too: names of sets are cut, so two long ones may begin
// the names of their Machines alike.
func ofAnother(set *v1alpha1.MachineSet, m *v1alpha1.Machine) bool {
	owner := metav1.GetControllerOfNoCopy(m)
	return owner != nil && owner.Kind == v1alpha1.MachineSetKind.Kind && owner.Name != set.Name && v1alpha1.IsMachineNameOf(owner.Name, m.Name)
}
