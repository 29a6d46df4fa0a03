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
	// Withheld returns why the deletion of a Machine must wait; empty when it may go on, and an error when that is not known. begun
	// reports whether the deletion was allowed to begin earlier. If it was not, the answer is based on reads that started after the
	// call.
	Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (why string, err error)
}

// observeKinds asks the keeper of drover's CRDs whether the Machine's deletion may continue. It is the last observation, directly
// before the steps.
func (o *Observer) observeKinds(ctx context.Context, s *scope.Scope) {
	if o.Kinds == nil || !s.Observed.Deleting {
		return
	}
	why, err := o.Kinds.Withheld(ctx, s.Machine, s.Memory.DeletionBegun)
	switch {
	case err != nil:
		s.Policy.Withheld, s.Policy.WithheldMessage = lifecycle.ReasonKindUnknown, err.Error()
	case why != "":
		s.Policy.Withheld, s.Policy.WithheldMessage = lifecycle.ReasonKindBeingDeleted, why
	}
	s.Memory.DeletionBegun = s.Policy.Withheld == ""
}
