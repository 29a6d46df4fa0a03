package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/machines/bootstrap"
)

// awaitNode keeps the join token good while the server boots.
func (r *Reconciler) awaitNode(ctx context.Context, p *pass) (bool, error) {
	p.detail = p.facts.taken
	// Looked at twice in a token's half life, so that it never runs out between two looks.
	p.soonest(bootstrap.TokenLife / 4)
	if p.timeouts.join > 0 {
		p.soonest(p.facts.cloud.Server.Created.Add(p.timeouts.join).Sub(r.Clock.Now()))
	}
	return false, r.Bootstrap.Tokens.Prolong(ctx, p.m)
}

// joinNode takes the Node as the Machine's and ends its token. A Node that was deleted and has registered anew is taken
// again.
func (r *Reconciler) joinNode(ctx context.Context, p *pass) (bool, error) {
	if !p.facts.joined {
		if err := r.Bootstrap.Tokens.Delete(ctx, p.m); err != nil {
			return false, err
		}
		if err := r.settlesJoin(ctx, p, true); err != nil {
			return false, err
		}
	}
	node := p.facts.node
	p.m.Status.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	p.facts.joined, p.facts.registeredAnew = true, false
	ctrl.LoggerFrom(ctx).Info("Node joined", "node", node.Name)
	return true, nil
}
