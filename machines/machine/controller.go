package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/fault"
)

// name is the controller's, and that of the events' reporter and the field manager.
const name = "drover-machine"

const fieldOwner = client.FieldOwner(name)

// conflictRetry is how soon a pass is repeated that lost against somebody else's write.
const conflictRetry = 200 * time.Millisecond

// Options make a [Reconciler].
type Options struct {
	// Control is where the Machines live, Target where their Nodes live.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	Bootstrap       *bootstrap.Source
	Clock           clock.PassiveClock
	// ClusterID is in the mark of cloud resources; it is named when something may be left behind.
	ClusterID string
	// Name is what a Machine's label machine.k8s.io/controller must say for it to be looked after here; who bears another is
	// left alone until it is deleted.
	Name string
	// Lease is looked at before each thing that is made in the cloud. nil: it is always fresh.
	Lease cloud.Lease
	// Kinds is asked before a Machine that is being deleted is drained, and before each step after that. nil: it always may.
	Kinds Kinds
	// StartupTaint is the key of the taint (NoSchedule) that a Node registers with and loses when its first start is
	// complete; empty: none. A Node is starting, and its Machine not Ready, until it is Ready and has no start-up taint of
	// Kubernetes (uninitialized, not-ready, unreachable, network-unavailable), and what follows here holds as well.
	StartupTaint string
	// StartupConditions must be True on the Node.
	StartupConditions []corev1.NodeConditionType
	// StartupDaemonSets must have a Ready pod on the Node.
	StartupDaemonSets []types.NamespacedName
	// OtherStartupTaints are keys of taints (NoSchedule or NoExecute) that other programs must have removed from the Node.
	OtherStartupTaints []string
	// DrainTimeout, from the Machine's deletion, ends the respect for disruption budgets. Default: 2 h. Negative: pods are
	// not evicted at all.
	DrainTimeout time.Duration
	// VolumeDetachTimeout is how long the volumes of evicted pods may take to be detached. Default: 5 min. Negative: they
	// are not waited for.
	VolumeDetachTimeout time.Duration
	// JoinTimeout is how long a server may take to become a node, from its creation. 0: for ever.
	JoinTimeout time.Duration
	// Workers is how many Machines are worked on at a time. A worker is occupied while a call to the cloud is answered, so there
	// should be as many as the cloud takes calls of all kinds at a time. Default: 64.
	Workers int
	// DrainWorkers is how many nodes are drained at a time. Default: 10.
	DrainWorkers int
}

// Reconciler takes Machines through their life.
type Reconciler struct {
	Options
	recorder events.EventRecorder
	crew     *drain.Crew
	retries  *backoff.Machines
	groups   *backoff.Groups
	writes   *writes
	wake     waker
	targets  targets
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 2 * time.Hour
	}
	if o.VolumeDetachTimeout == 0 {
		o.VolumeDetachTimeout = 5 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	r := &Reconciler{
		Options:  o,
		recorder: o.Control.GetEventRecorder(name),
		retries:  backoff.NewMachines(),
		writes:   newWrites(),
	}
	r.groups = backoff.NewGroups(r.wake.wake)
	r.crew = drain.NewCrew(drain.CrewOptions{
		Drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()},
		Clock:   o.Clock, Workers: o.DrainWorkers, Looked: r.wake.wake,
	})
	return r
}

// Reconcile looks at one Machine once: it observes, takes the steps that can be taken, and writes the Machine when that
// changed something.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// The cache's own object, which nobody may change: the pass works on a copy.
	var cached v1alpha1.Machine
	if err := r.Control.GetClient().Get(ctx, req.NamespacedName, &cached, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.writes.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Machine %s: %w", req, err)
	}
	if r.writes.cacheOld(&cached, nil, r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: retryCache}, nil
	}
	p := &pass{m: cached.DeepCopy(), base: &cached}
	if r.leaseOld() {
		r.standsBack(ctx, p)
		return ctrl.Result{RequeueAfter: p.after}, nil
	}
	err := r.run(ctx, p)
	switch {
	case errors.Is(err, errCacheOld):
		return ctrl.Result{RequeueAfter: retryCache}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.after}, nil
}

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	if err := r.putBack(ctx, p); err != nil {
		return err
	}
	if err := r.observe(ctx, p); err != nil {
		return err
	}
	err := r.walk(ctx, p)
	if p.gone {
		return err
	}
	if p.last.reason == reasonLeaseOld || r.leaseOld() {
		r.standsBack(ctx, p)
		return err
	}
	if p.last.reason == reasonNodeMissing {
		err = errors.Join(err, r.missNode(ctx, p))
	}
	err = errors.Join(err, r.settles(ctx, p))
	if p.last.step == wait || p.last.step == rest {
		r.rests(p)
	}
	if p.inLine && p.facts.cloudErr != nil {
		// Nothing was learned of the cloud.
		return err
	}
	// What was reached before an error is written all the same; what failed comes again.
	r.conclude(p)
	return errors.Join(err, r.persistDue(ctx, p))
}

// rests says when to look again after a pass that only waited. Most waits end with a change that is watched.
func (r *Reconciler) rests(p *pass) {
	now := r.Clock.Now()
	permission := p.facts.permission
	switch p.last.reason {
	case reasonBackOff:
		p.failure = r.retries.Unwritten(p.m)
		p.soonest(max(r.retries.Until(p.m, now).Sub(now), time.Second))
	case reasonShortage:
		p.failure = backoff.FailureFor(permission.Backoff, p.m.Name)
		p.soonest(max(permission.RetryAt.Sub(now), time.Second))
	case reasonJoinsFail:
		p.detail = "at least half of the group's last servers did not become nodes: one at a time is tried"
		p.soonest(max(permission.RetryAt.Sub(now), pollCloud))
	case reasonNotSynced:
		p.soonest(time.Second)
	case reasonServerUnknown, reasonServerDeleting:
		p.detail = p.facts.cloud.Unknown
		p.soonest(pollCloud)
	case reasonHeld:
		p.detail = p.facts.cloud.Held
		p.soonest(time.Minute)
	case reasonForeign:
		p.failure = fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s; remove this Machine, and that server is left alone", p.facts.cloud.Foreign)
		// An operator may allow the adoption meanwhile, or the policies that guard it come into force.
		p.soonest(pollCloud)
	}
}
