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
	if r.JoinTimeout > 0 {
		p.soonest(p.facts.cloud.Server.Created.Add(r.JoinTimeout).Sub(r.Clock.Now()))
	}
	return false, r.Bootstrap.Tokens.Prolong(ctx, p.m)
}

// joinNode takes the Node as the Machine's and ends its token.
func (r *Reconciler) joinNode(ctx context.Context, p *pass) (bool, error) {
	if err := r.Bootstrap.Tokens.Delete(ctx, p.m); err != nil {
		return false, err
	}
	node := p.facts.node
	p.m.Status.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	p.facts.joined = true
	ctrl.LoggerFrom(ctx).Info("Node joined", "node", node.Name)
	return true, nil
}
