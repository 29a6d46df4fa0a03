package csr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// fieldOwner is the field manager of the condition OthersApprove.
const fieldOwner = client.FieldOwner(name)

// report sets the condition OthersApprove on every MachineDeployment while other programs approve requests that are made with the tokens of
// joining servers. When no other program does so any more, report removes the condition. It writes only when the condition changes.
func (g *ApproverCheck) report(ctx context.Context, why string) error {
	var list v1alpha1.MachineDeploymentList
	if err := g.Control.GetClient().List(ctx, &list); err != nil {
		return fmt.Errorf("listing MachineDeployments: %w", err)
	}
	why = fault.Line(why)
	var errs []error
	for i := range list.Items {
		d := &list.Items[i]
		have := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionOthersApprove)
		told := have != nil && have.Message == why
		if d.DeletionTimestamp == nil && (why == "" && have != nil || why != "" && !told) {
			errs = append(errs, g.apply(ctx, d, have, why))
		}
	}
	return errors.Join(errs...)
}

// apply writes the condition OthersApprove, or removes it when why is empty.
func (g *ApproverCheck) apply(ctx context.Context, d *v1alpha1.MachineDeployment, have *metav1.Condition, why string) error {
	conditions := []any{}
	if why != "" {
		since := metav1.NewTime(g.Clock.Now())
		if have != nil {
			since = have.LastTransitionTime
		}
		conditions = append(conditions, map[string]any{
			"type": v1alpha1.ConditionOthersApprove, "status": string(metav1.ConditionTrue), "reason": reasonOthersApprove,
			"message": why, "lastTransitionTime": since.UTC().Format(time.RFC3339),
		})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.MachineDeploymentKind.Kind,
		"metadata": map[string]any{"namespace": d.Namespace, "name": d.Name, "uid": string(d.UID)},
		"status":   map[string]any{"conditions": conditions},
	}}
	err := g.Control.GetClient().Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition of MachineDeployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}
