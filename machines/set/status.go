package set

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons in status.errorReason.
const (
	reasonInvalid = "InvalidConfiguration"
	reasonSize    = rollout.ReasonSizeTooLarge
	reasonCreate  = "CreateError"
	reasonCeiling = "TooManyMachines"
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
func failedStatus(set *v1alpha1.MachineSet, reason string, err error, now metav1.Time) v1alpha1.MachineSetStatus {
	st := withoutOthers(*set.Status.DeepCopy())
	st.ObservedGeneration = set.Generation
	st.ErrorReason, st.ErrorMessage = &reason, bounded(err.Error())
	wanted := st.Replicas
	if set.Spec.Replicas != nil {
		wanted = *set.Spec.Replicas
	}
	st.Conditions = conditions(set, st, int(wanted), now)
	return st
}

// bounded returns a message of at most 4096 bytes, cut between two characters: the status of a set keeps what to do about an
// error, which often stands at the end.
func bounded(message string) *string {
	const limit, ellipsis = 4096, "…"
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:limit-len(ellipsis)], "") + ellipsis
	}
	return &message
}

// writeStatus applies the status when it differs from what is stored. Template, back-offs and other conditions are not
// this controller's.
func (r *Reconciler) writeStatus(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) error {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
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

// ours are the conditions that this controller writes.
var ours = []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReplicaFailure}

// withoutOthers returns a status without the fields that other controllers own.
func withoutOthers(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st.NodeTemplate, st.Backoffs, st.JoinOutcomes, st.RecentJoins = nil, nil, nil, ""
	return st
}

// ownedStatus reduces a status to what this controller owns, as the API server stores it: times in whole seconds.
func ownedStatus(st v1alpha1.MachineSetStatus) v1alpha1.MachineSetStatus {
	st = withoutOthers(st)
	var conditions []metav1.Condition
	for _, kind := range ours {
		if c := meta.FindStatusCondition(st.Conditions, kind); c != nil {
			c := *c
			c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
			conditions = append(conditions, c)
		}
	}
	st.Conditions = conditions
	return st
}
