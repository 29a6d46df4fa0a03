package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	server := p.facts.cloud.Server
	if reasonOf(p.base, v1alpha1.ConditionDeleting) != reasonDeletingServer {
		r.drainCutOff(ctx, p)
		ctrl.LoggerFrom(ctx).Info("Deleting server", "server", server.ID)
	}
	if err := r.recordBelongings(ctx, p); err != nil {
		return false, err
	}
	p.detail = fmt.Sprintf("server %s is to go; the cloud calls it %s", server.ID, server.Status)
	if err := p.instance.DeleteServer(ctx); err != nil {
		return r.refusedInDeletion(ctx, p, err)
	}
	p.soonest(pollCloud)
	return false, nil
}

// refusedInDeletion shows what the cloud would not do. A forced deletion does not wait for it, but for its turn.
func (r *Reconciler) refusedInDeletion(ctx context.Context, p *pass, err error) (bool, error) {
	r.fails(ctx, p, err)
	p.facts.cloudRefused = !p.inLine
	return p.facts.cloudRefused && p.facts.force, nil
}

// release removes what belonged to the server, now that it is gone.
func (r *Reconciler) release(ctx context.Context, p *pass) (bool, error) {
	released, err := p.instance.Release(ctx)
	if err != nil {
		return r.refusedInDeletion(ctx, p, err)
	}
	p.facts.released = released.Done
	if len(released.Left) > 0 {
		p.left, p.leftReason = strings.Join(released.Left, "; "), reasonLeftAlone
	}
	if !released.Done {
		p.detail = "ports, floating IP and volumes are being deleted"
		p.soonest(pollCloud)
	}
	return released.Done, nil
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

// letGo ends the care for the cloud without its word: nothing was ever made, the server is not ours, or a person has said
// so. In the last case an Event says what may be left, once the Machine is let go.
func (r *Reconciler) letGo(_ context.Context, p *pass) (bool, error) {
	p.facts.released = true
	if p.last.reason == reasonForced {
		p.left, p.leftReason = r.mayBeLeft(p.m), reasonForced
	}
	return true, nil
}

// mayBeLeft names what the cloud may still hold of a Machine.
func (r *Reconciler) mayBeLeft(m *v1alpha1.Machine) string {
	known, server := recordOf(m), m.ServerName()
	if known.ServerID != "" {
		server += " (" + known.ServerID + ")"
	}
	text := fmt.Sprintf("let go without the cloud's word: server %s, and ports and floating IPs whose description begins with %q, may be left",
		server, fmt.Sprintf("drover %s %s", r.ClusterID, m.UID))
	if known.ProjectID != "" {
		text += fmt.Sprintf(" in project %s, region %q", known.ProjectID, known.Region)
	}
	if ids := slices.Concat(known.PortIDs, strings.Fields(known.FloatingIPID)); len(ids) > 0 {
		text += "; by the last record " + strings.Join(ids, ", ")
	}
	if len(known.VolumeIDs) > 0 {
		text += "; volumes " + strings.Join(known.VolumeIDs, ", ") + " too"
	}
	return text
}
