package observe

import (
	"context"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
)

// Kinds reports whether a deletion must wait because one of drover's own CustomResourceDefinitions is being deleted or is
// missing. Deleting a CRD deletes Machines that no operator meant to delete.
type Kinds interface {
	// Withheld returns why the deletion of a Machine must wait, as the reason and the message of a condition; both are empty
	// when the deletion may go on. begun reports whether the deletion was allowed to begin earlier. If it was not, the answer
	// is based on reads that started after the call.
	Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (reason, message string)
}

// observeKinds asks the keeper of drover's CRDs whether the Machine's deletion may continue. It is the last observation, directly
// before the steps.
func (o *Observer) observeKinds(ctx context.Context, s *scope.Scope) {
	if o.Kinds == nil || !s.Observed.Deleting {
		return
	}
	s.Policy.Withheld, s.Policy.WithheldMessage = o.Kinds.Withheld(ctx, s.Machine, deletionBegun(s.Base) || s.DeletionBegun())
	s.AllowDeletion(s.Policy.Withheld == "")
}

// deletionBegun reports whether an earlier reconcile was allowed to begin the Machine's deletion. A condition that is older
// than the deletion does not count: it was restored with the Machine from a backup.
func deletionBegun(m *v1alpha1.Machine) bool {
	c := m.Condition(v1alpha1.ConditionDeleting)
	held := c.Reason == lifecycle.ReasonKindBeingDeleted || c.Reason == lifecycle.ReasonKindUnknown || c.Reason == lifecycle.ReasonFactsUnread
	return !held && c.LastTransitionTime != nil && !c.LastTransitionTime.Before(m.DeletionTimestamp)
}
