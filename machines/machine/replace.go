package machine

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/fault"
)

// replaceServer shows why a server has failed and deletes it; once it is gone and the back-off is over, the table comes
// to the making of another. That the Machine names no server any more is written before the deletion: otherwise a
// successor would take our own deletion for a loss.
func (r *Reconciler) replaceServer(ctx context.Context, p *pass) (bool, error) {
	server := p.facts.cloud.Server
	cause := server.Fault
	if cause == nil {
		cause = fault.New(fault.Unknown, fault.CodeServerError, "server %s is in ERROR; the cloud gave no reason", server.ID)
	}
	if err := r.serverFails(ctx, p, cause); err != nil {
		return false, err
	}
	p.m.Spec.ProviderID = nil
	p.facts.named = false
	r.conclude(p)
	if err := r.persist(ctx, p); err != nil {
		return false, err
	}
	p.soonest(pollCloud)
	if err := p.instance.DeleteFailed(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Info("Deleting a failed server did not work yet", "server", server.ID, "cause", err.Error())
	}
	return false, nil
}
