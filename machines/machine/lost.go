package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/fault"
)

// loseServer follows the proof that somebody has deleted the server. The Machine of a set goes, and its set makes a new
// one (MC-66). One without a set stays and says so.
func (r *Reconciler) loseServer(ctx context.Context, p *pass) (bool, error) {
	p.failure = fault.New(fault.NotFound, fault.CodeResourceNotFound, "server %s was deleted in the cloud", namedServer(p.m))
	return false, r.abandon(ctx, p)
}

// giveUp ends the wait for a server that has not become a node in time. The Machine is deleted, for its set to replace. One
// without an owner stays, marked Failed: nobody would make another (MC-57).
func (r *Reconciler) giveUp(ctx context.Context, p *pass) (bool, error) {
	p.failure = fault.New(fault.Invalid, fault.CodeJoinTimeout, "server %s has not become a node within %v", p.facts.cloud.Server.ID, p.timeouts.join)
	if r.keepConsole(ctx, p) {
		if err := r.settlesJoin(ctx, p, false); err != nil {
			return false, err
		}
	}
	return false, r.abandon(ctx, p)
}

// abandon deletes the Machine so that its set makes another. Without an owner it does nothing.
func (r *Reconciler) abandon(ctx context.Context, p *pass) error {
	if !p.facts.owned {
		return nil
	}
	r.conclude(p)
	if err := r.persist(ctx, p); err != nil {
		return err
	}
	uid, version := p.m.UID, p.m.ResourceVersion
	err := r.Control.GetClient().Delete(ctx, p.m, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Machine %s, which its set replaces: %w", p.m.Name, err)
	}
	p.gone = true
	r.groups.Forget(uid)
	ctrl.LoggerFrom(ctx).Info("Machine deleted for its set to replace", "reason", p.last.reason, "cause", p.failure.Message)
	return nil
}
