package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/observe"
	"github.com/drover-project/drover/machines/machine/retry"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/safety/reach"
)

// name is that of the controller, the reporter of its Events and its field manager.
const name = "drover-machine"

const fieldOwner = client.FieldOwner(name)

// A reconcile that lost against the write of another client is repeated after retryConflict, and after twice as long each time,
// but at most after longestConflict: the watch that should show that write may be minutes late.
const (
	retryConflict   = 200 * time.Millisecond
	longestConflict = 10 * time.Second
)

// retryForced is how soon a forced deletion is looked at again after an error.
const retryForced = 5 * time.Second

// Options make a [Reconciler].
type Options struct {
	// Control is where the Machines live, Target where their Nodes live.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	Bootstrap       *bootstrap.Source
	Clock           clock.WithTicker
	// Name is the value that the label machine.k8s.io/controller of a Machine must have. A Machine with another one is left
	// alone until it is deleted.
	Name string
	// Lease is looked at before each thing that is made in the cloud. nil: it is always fresh.
	Lease cloud.Lease
	// Reach reports whether the API servers answer: while they do not, nothing is made in the cloud, and no server is given up
	// because its Node has not come. nil: they do.
	Reach *reach.Watch
	// Kinds is asked before a Machine that is being deleted is drained, and before each step after that. nil: it always may.
	Kinds observe.Kinds
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
	// LeaveStopped: servers that somebody has shut down are not started.
	LeaveStopped bool
	// Registry takes the controller's metrics. nil: nobody reads them.
	Registry prometheus.Registerer
}

// Reconciler takes Machines through their life.
type Reconciler struct {
	control  cluster.Cluster
	target   cluster.Cluster
	cloud    cloud.Cloud
	clock    clock.WithTicker
	lease    cloud.Lease
	reach    *reach.Watch
	workers  int
	store    *scope.Store
	observer *observe.Observer
	retries  *retry.Retries
	actions  map[lifecycle.Step]action
	drains   *drain.Pool
	wake     waker
	// conflicts has the waits of Machines whose writes conflict.
	conflicts workqueue.TypedRateLimiter[reconcile.Request]

	powerDecisions *prometheus.CounterVec
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	o = o.withDefaults()
	r := newObserving(o)
	r.powerDecisions = steps.NewDecisions()
	if o.Registry != nil {
		o.Registry.MustRegister(r.powerDecisions)
	}
	r.drains = drain.NewPool(drain.PoolOptions{
		Drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()},
		Clock:   o.Clock, Workers: o.DrainWorkers, OnResult: r.wake.wake,
	})
	r.actions = r.newActions(&o)
	return r
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 2 * time.Hour
	}
	if o.VolumeDetachTimeout == 0 {
		o.VolumeDetachTimeout = 5 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	return o
}

// start returns when the first start of a Node is complete.
func (o *Options) start() nodes.StartRules {
	return nodes.StartRules{
		Taint: o.StartupTaint, Conditions: o.StartupConditions, DaemonSets: o.StartupDaemonSets, OtherTaints: o.OtherStartupTaints,
	}
}

// newObserving makes a Reconciler that can observe Machines and takes no step.
func newObserving(o Options) *Reconciler {
	r := &Reconciler{
		control: o.Control, target: o.Target, cloud: o.Cloud, clock: o.Clock, lease: o.Lease, reach: o.Reach, workers: o.Workers,
		conflicts: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryConflict, longestConflict),
	}
	r.retries = retry.New(o.Control.GetClient(), fieldOwner, r.wake.wake)
	r.store = scope.NewStore(scope.Options{
		Client: o.Control.GetClient(), FieldOwner: fieldOwner, Recorder: o.Control.GetEventRecorder(name),
		Clock: o.Clock, Provider: o.Cloud, Controller: o.Name, Start: o.start(), Gone: r.forget,
	})
	r.observer = observe.New(observe.Options{
		Control: o.Control.GetClient(), Target: o.Target.GetClient(), LiveControl: o.Control.GetAPIReader(), Live: o.Target.GetAPIReader(),
		LeaveStopped: o.LeaveStopped, Cloud: o.Cloud, Backoffs: r.retries, Kinds: o.Kinds, Reach: o.Reach, Start: o.start(),
		Timeouts: lifecycle.Timeouts{Drain: o.DrainTimeout, Volumes: o.VolumeDetachTimeout, Join: o.JoinTimeout},
	})
	return r
}

// Reconcile takes one Machine as far as it can go at once: it observes, takes the steps that can be taken, and writes the
// Machine when that changed something.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// The cache's own object must not be changed: the scope works on a copy.
	var cached v1alpha1.Machine
	if err := r.control.GetClient().Get(ctx, req.NamespacedName, &cached, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.store.Forget(req.NamespacedName)
			r.conflicts.Forget(req)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Machine %s: %w", req, err)
	}
	s := r.store.Open(&cached)
	if s == nil {
		return ctrl.Result{RequeueAfter: scope.RetryCache}, nil
	}
	err := r.reconcile(ctx, s)
	if !apierrors.IsConflict(err) {
		r.conflicts.Forget(req)
	}
	switch {
	case errors.Is(err, observe.ErrCacheOld):
		return ctrl.Result{RequeueAfter: scope.RetryCache}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: r.conflicts.When(req)}, nil
	case err != nil && s.Forced():
		// The queue's own back-off grows to a quarter of an hour.
		ctrl.LoggerFrom(ctx).Error(err, "A step of a forced deletion is repeated")
		return ctrl.Result{RequeueAfter: retryForced}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if !s.Gone {
		s.RequeueForced()
	}
	return ctrl.Result{RequeueAfter: s.RequeueAfter}, nil
}

// forget drops what is held of a Machine that is gone, and that its deletion did not drop: its finalizers were removed by hand.
func (r *Reconciler) forget(machine types.UID) {
	r.retries.Forget(machine)
	if r.drains != nil {
		r.drains.Forget(machine)
	}
}

// sweepEvery is how often what is held of groups that are no longer used is looked for.
const sweepEvery = 10 * time.Minute

// sweep drops it now and then until ctx ends.
func (r *Reconciler) sweep(ctx context.Context) error {
	ticker := r.clock.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			r.retries.Sweep(r.clock.Now())
		}
	}
}
