package machine

import (
	"context"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ensureServer makes the server, or finds the one that a predecessor made.
func (r *Reconciler) ensureServer(ctx context.Context, p *pass) (bool, error) {
	server, err := p.instance.EnsureServer(ctx, p.userData)
	if err != nil {
		return false, r.failsInCloud(ctx, p, err)
	}
	r.groups.Ordered(p.group.holder, p.m.UID, r.Clock.Now())
	p.facts.cloud.Server = server
	ctrl.LoggerFrom(ctx).Info("Server made", "server", server.ID)
	return true, nil
}

// recordServer writes down which server is the Machine's, with the status at the end of the pass. Until then the server's own
// metadata says so. The same write records what its Node will have, before that Node registers.
func (r *Reconciler) recordServer(ctx context.Context, p *pass) (bool, error) {
	p.m.Spec.ProviderID = ptr.To(p.facts.cloud.Server.ProviderID)
	p.facts.named = true
	want, err := r.wanted(ctx, p)
	if err != nil {
		return false, err
	}
	p.m.Status.NodeMarks = recordAhead(marksIn(p.m), want)
	return true, nil
}
