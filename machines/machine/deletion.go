package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// pollCloud is how soon to look again at what the cloud was asked to delete, if it reports no change before.
const pollCloud = 15 * time.Second

// deleteServer asks for the server's deletion and waits for the cloud's word that it is gone.
func (r *Reconciler) deleteServer(ctx context.Context, p *pass) (bool, error) {
	if reasonOf(p.base, v1alpha1.ConditionDeleting) != reasonDeletingServer {
		ctrl.LoggerFrom(ctx).Info("Deleting server", "server", p.facts.cloud.Server.ID)
	}
	if err := p.instance.DeleteServer(ctx); err != nil {
		r.fails(ctx, p, err)
		return false, nil
	}
	p.soonest(pollCloud)
	return false, nil
}

// release removes what belonged to the server, now that it is gone.
func (r *Reconciler) release(ctx context.Context, p *pass) (bool, error) {
	done, err := p.instance.Release(ctx)
	if err != nil {
		r.fails(ctx, p, err)
		return false, nil
	}
	p.facts.released = done
	if !done {
		p.soonest(pollCloud)
	}
	return done, nil
}

// deleteNode removes the Node, which nobody may do before the server is gone. One that is not there is no error.
func (r *Reconciler) deleteNode(ctx context.Context, p *pass) (bool, error) {
	p.facts.nodeGone = true
	node := p.facts.node
	if node == nil {
		return true, nil
	}
	uid := node.UID
	target := &corev1.Node{ObjectMeta: node.ObjectMeta}
	if err := r.Target.GetClient().Delete(ctx, target, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting node %s: %w", node.Name, err)
	}
	return true, nil
}

// deleteToken removes the join token of a Machine that goes before it has joined.
func (r *Reconciler) deleteToken(ctx context.Context, p *pass) (bool, error) {
	p.facts.tokenGone = true
	if p.facts.joined {
		return true, nil
	}
	return true, r.Bootstrap.Tokens.Delete(ctx, p.m)
}

// letGo ends the care for the cloud without its word: nothing was ever made, or a person has said so. In the second
// case an Event says what may be left.
func (r *Reconciler) letGo(_ context.Context, p *pass) (bool, error) {
	p.facts.released = true
	if p.last.reason == reasonForced {
		r.event(p.m, corev1.EventTypeWarning, reasonForced, fmt.Sprintf(
			"let go without the cloud's word: server %s, and ports, floating IPs and volumes marked %q, may be left",
			p.m.ServerName(), fmt.Sprintf("drover %s %s", r.ClusterID, p.m.UID)))
	}
	return true, nil
}
