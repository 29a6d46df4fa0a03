package set

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons in status.errorReason.
const (
	reasonInvalid = "InvalidConfiguration"
	reasonCreate  = "CreateError"
)

// status counts the living Machines.
func (s seen) status(selector labels.Selector) v1alpha1.MachineSetStatus {
	st := v1alpha1.MachineSetStatus{ObservedGeneration: s.set.Generation, Selector: selector.String()}
	template := labels.SelectorFromSet(s.set.Spec.Template.Metadata.Labels)
	for _, f := range s.machines {
		if !f.Living() {
			continue
		}
		st.Replicas++
		if template.Matches(labels.Set(f.Machine.Labels)) {
			st.FullyLabeledReplicas++
		}
		if f.NodeReady {
			st.ReadyReplicas++
		}
		if f.Available {
			st.AvailableReplicas++
		}
	}
	return st
}

// failedStatus keeps the numbers and says what is wrong with the spec.
func failedStatus(set *v1alpha1.MachineSet, reason string, err error) v1alpha1.MachineSetStatus {
	st := *set.Status.DeepCopy()
	st.Conditions, st.NodeTemplate, st.Backoffs, st.RecentJoins = nil, nil, nil, ""
	st.ObservedGeneration = set.Generation
	st.ErrorReason, st.ErrorMessage = &reason, bounded(err.Error())
	return st
}

// bounded cuts a message to what fits a status line.
func bounded(message string) *string {
	const limit = 256
	if len(message) > limit {
		message = message[:limit-3] + "..."
	}
	return &message
}

// writeStatus applies the status when it differs from what is stored. Conditions, template and back-offs are not this
// controller's.
func (r *Reconciler) writeStatus(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) error {
	stored := set.Status
	stored.Conditions, stored.NodeTemplate, stored.Backoffs, stored.RecentJoins = nil, nil, nil, ""
	if equality.Semantic.DeepEqual(stored, st) {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&st)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.MachineSetKind.Kind,
		"metadata": map[string]any{"namespace": set.Namespace, "name": set.Name, "uid": string(set.UID)},
		"status":   status,
	}}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status of %s %s/%s: %w", v1alpha1.MachineSetKind.Kind, set.Namespace, set.Name, err))
	}
	return nil
}

// isController says that an object's controller is the set.
func isController(ref *metav1.OwnerReference) bool {
	return ref != nil && ref.Kind == v1alpha1.MachineSetKind.Kind
}
