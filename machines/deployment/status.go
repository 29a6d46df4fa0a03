package deployment

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of the condition BoundsValid.
const (
	reasonBounds     = "BoundsRead"
	reasonMinMissing = "MinSizeMissing"
	reasonBadBounds  = "BoundsInvalid"
	reasonMaxLowered = "MaxSizeTooLarge"
)

// reasonWithoutEffect is the reason of the condition Warnings.
const reasonWithoutEffect = "WithoutEffect"

// otherRevision is the spelling of [v1alpha1.AnnotationRevision] that manifests of MetaKube have. Keys of annotations tell
// upper case from lower case, so it is another annotation.
const otherRevision = "machineDeployment.clusters.k8s.io/revision"

// ours are the conditions that this controller writes; others on the same object are left alone.
var ours = []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionBoundsValid, v1alpha1.ConditionWarnings}

// bounds reads the deployment's bounds and says so in a condition, which is nil when there are none. A bad value, or a
// missing minimum, is told with an Event when it is seen first.
func (r *Reconciler) bounds(d *v1alpha1.MachineDeployment) (v1alpha1.Bounds, *metav1.Condition) {
	bounds, err := v1alpha1.ParseBounds(d.Annotations)
	c := metav1.Condition{Type: v1alpha1.ConditionBoundsValid, Status: metav1.ConditionTrue, Reason: reasonBounds,
		Message: fmt.Sprintf("a node group of %d to %d Machines", bounds.Min, bounds.Max), ObservedGeneration: d.Generation}
	switch {
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonBadBounds, err.Error()
	case !bounds.Listed:
		return bounds, nil
	case bounds.MaxLowered:
		c.Reason, c.Message = reasonMaxLowered, c.Message+fmt.Sprintf("; the annotation asks for more than %d, which is the most that is possible", v1alpha1.MaxReplicas)
	case bounds.MinMissing:
		c.Reason, c.Message = reasonMinMissing, c.Message+"; no annotation gives a minimum, so it is 0"
	}
	if r.transition(d, &c) && c.Reason != reasonBounds {
		r.events.Eventf(d, nil, "Warning", c.Reason, "ReadBounds", "%s", c.Message)
	}
	return bounds, &c
}

// warnings returns a condition that names what is accepted without effect; nil when there is nothing. What is new is told
// with an Event.
func (r *Reconciler) warnings(d *v1alpha1.MachineDeployment) *metav1.Condition {
	if _, given := d.Annotations[otherRevision]; !given {
		return nil
	}
	c := metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: reasonWithoutEffect,
		Message:            fmt.Sprintf("annotation %s: has no effect (drover keeps the revision in %s); it may be removed", otherRevision, v1alpha1.AnnotationRevision),
		ObservedGeneration: d.Generation}
	if r.transition(d, &c) {
		r.events.Eventf(d, nil, "Warning", c.Reason, "Reconcile", "%s", c.Message)
	}
	return &c
}

// transition fills in a condition's transition time, and says whether reason or message differ from what is stored.
func (r *Reconciler) transition(d *v1alpha1.MachineDeployment, c *metav1.Condition) (changed bool) {
	c.LastTransitionTime = metav1.NewTime(r.clock.Now())
	former := meta.FindStatusCondition(d.Status.Conditions, c.Type)
	if former != nil && former.Status == c.Status {
		c.LastTransitionTime = former.LastTransitionTime
	}
	return former == nil || former.Reason != c.Reason || former.Message != c.Message
}

// writeStatus applies the fields that this controller owns, when they differ from what is stored.
func (r *Reconciler) writeStatus(ctx context.Context, d *v1alpha1.MachineDeployment, st v1alpha1.MachineDeploymentStatus) error {
	if equality.Semantic.DeepEqual(owned(d.Status), owned(st)) {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&st)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.MachineDeploymentKind.Kind,
		"metadata": map[string]any{"namespace": d.Namespace, "name": d.Name, "uid": string(d.UID)},
		"status":   status,
	}}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status: %w", err))
	}
	return nil
}

// withoutOthers returns a status without the fields that other controllers own.
func withoutOthers(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st.NodeTemplate, st.Backoffs, st.JoinOutcomes, st.RecentJoins = nil, nil, nil, ""
	return st
}

// owned reduces a status to what this controller owns, as the API server stores it: conditions sorted, times in
// whole seconds.
func owned(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st = withoutOthers(st)
	conditions := make([]metav1.Condition, 0, len(st.Conditions))
	for _, c := range st.Conditions {
		if slices.Contains(ours, c.Type) {
			c.LastTransitionTime = c.LastTransitionTime.Rfc3339Copy()
			conditions = append(conditions, c)
		}
	}
	slices.SortFunc(conditions, func(a, b metav1.Condition) int {
		return slices.Index(ours, a.Type) - slices.Index(ours, b.Type)
	})
	st.Conditions = conditions
	return st
}
