package machine

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// retryHeld is how soon a deletion that is withheld is looked at again. Nothing that is watched ends the wait.
const retryHeld = 15 * time.Second

// Kinds knows whether drover's own CustomResourceDefinitions are in place. When one is deleted, Machines are deleted that
// nobody wanted to delete.
type Kinds interface {
	// Withheld returns why the deletion of a Machine must wait, as a condition's reason and message; both are empty when it
	// may go on. The answer is no older than the call, unless begun says that the deletion was allowed to begin before.
	Withheld(ctx context.Context, m *v1alpha1.Machine, begun bool) (reason, message string)
}

// observeKinds looks whether a deletion may go on. It comes last, right before the steps.
func (r *Reconciler) observeKinds(ctx context.Context, p *pass) {
	if r.Kinds == nil || !p.facts.deleting {
		return
	}
	p.facts.withheld, p.held = r.Kinds.Withheld(ctx, p.m, deletionBegun(p.base) || r.writes.hasBegun(p.m))
	r.writes.allowed(p.m, p.facts.withheld == "")
}

// deletionBegun reports whether an earlier pass was allowed to begin the Machine's deletion. A condition that is older than
// the deletion came with the manifest of a Machine that was restored.
func deletionBegun(m *v1alpha1.Machine) bool {
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionDeleting {
			held := c.Reason == reasonKindBeingDeleted || c.Reason == reasonKindUnknown
			return !held && c.LastTransitionTime != nil && !c.LastTransitionTime.Before(m.DeletionTimestamp)
		}
	}
	return false
}

// hold leaves the Machine's pods, server and Node as they are although it is being deleted, and says so.
func (r *Reconciler) hold(ctx context.Context, p *pass) (bool, error) {
	r.crew.Forget(p.m.UID)
	p.detail = p.held
	p.soonest(retryHeld)
	if reasonOf(p.base, v1alpha1.ConditionDeleting) != p.last.reason {
		r.warn(p.m, p.last.reason, p.held)
		ctrl.LoggerFrom(ctx).Info("Deletion withheld", "reason", p.last.reason, "cause", p.held)
	}
	return false, nil
}
