package machine

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// retryLease is how soon to look at the lease again: it is renewed every few seconds.
const retryLease = time.Second

func (r *Reconciler) leaseOld() bool { return r.Lease != nil && !r.Lease.Fresh(r.Clock.Now()) }

// standsBack ends a pass under a lease that may be another's by now (design §3). The Machine is not written: who leads says
// how things are with it, and would say so again at once, and so on.
func (r *Reconciler) standsBack(ctx context.Context, p *pass) {
	p.soonest(retryLease)
	// The election says it once; of each Machine it would be a line a second.
	ctrl.LoggerFrom(ctx).V(1).Info("Nothing is done: the lease was not renewed in time")
}
