package health

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
)

// mostShown is the maximum number of Machines whose condition Healthy one round of the health controller writes. The next
// round writes the others.
const mostShown = 100

// showConditions writes condition Healthy of the Machines whose condition must change. If another client writes a Machine at
// the same time, the next round writes that Machine.
func (r *Reconciler) showConditions(ctx context.Context, plan *verdict.Plan, o *outcome) {
	written := 0
	for _, v := range plan.Verdicts {
		if v.Condition == nil || beingReplaced(plan, v) {
			continue
		}
		if written++; written > mostShown {
			o.add(errLater)
			return
		}
		o.add(r.showCondition(ctx, v))
	}
}

// beingReplaced reports whether this round replaces the Machine.
func beingReplaced(plan *verdict.Plan, v *verdict.Verdict) bool {
	for _, replaced := range plan.Replace {
		if replaced == v {
			return true
		}
	}
	return false
}

// showCondition patches condition Healthy of one Machine. It uses optimistic locking, because the patch replaces the whole
// list of conditions.
func (r *Reconciler) showCondition(ctx context.Context, v *verdict.Verdict) error {
	base := v.Machine.Machine
	m := base.DeepCopy()
	setCondition(m, v.Condition, metav1.NewTime(r.last))
	err := r.control.Patch(ctx, m, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), client.FieldOwner(name))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing condition Healthy of Machine %s: %w", describe(base), err)
	}
	return nil
}

// setCondition sets condition Healthy. Its transition time changes only with its status.
func setCondition(m *v1alpha1.Machine, c *verdict.Condition, now metav1.Time) {
	next := v1alpha1.MachineCondition{Type: v1alpha1.ConditionHealthy, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: &now}
	for i := range m.Status.Conditions {
		have := &m.Status.Conditions[i]
		if have.Type != next.Type {
			continue
		}
		if have.Status == next.Status && have.LastTransitionTime != nil {
			next.LastTransitionTime = have.LastTransitionTime
		}
		*have = next
		return
	}
	m.Status.Conditions = append(m.Status.Conditions, next)
}
