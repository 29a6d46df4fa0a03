package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/periodic"
	"github.com/drover-project/drover/machines/safety/reach"
)

// name is the name of the controller, which is also its field manager and the reporter of its Events.
const name = string(scope.FieldOwner)

// retryForced is the wait until a forced deletion is reconciled again when a step has failed.
const retryForced = 5 * time.Second

// Options configure a [Reconciler].
type Options struct {
	// Control is the cluster of the Machines, Target the cluster of their Nodes.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	Bootstrap       *bootstrap.Source
	Clock           clock.WithTicker
	// Name is the required value of the label machine.k8s.io/controller of a Machine. A Machine with another value is ignored
	// until it is deleted.
	Name string
	// Lease is checked before each create call to the cloud. nil means that the lease is always fresh.
	Lease cloud.Lease
	// Reach reports whether the API servers answer. While they do not, the controller creates nothing in the cloud, and does
	// not give up a server because its Node has not registered. nil means that they always answer.
	Reach *reach.Watch
	// Kinds decides whether a Machine that is being deleted may be drained, and whether each later step of its deletion may
	// be taken. nil means that these steps are always allowed.
	Kinds Kinds
	// Nodes configures what Nodes get, and when their first start is complete.
	Nodes steps.NodeOptions
	// Timeouts apply where the annotations of a Machine and of its group set no timeout. Drain is how long a drain respects
	// PodDisruptionBudgets, counted from the deletion of the Machine; default: 2 h. Volumes is how long the controller waits until
	// the volumes of evicted pods are detached; default: 5 min. Join is how long a server may take, from its creation, to become a
	// Node; 0 means that there is no limit.
	Timeouts lifecycle.Timeouts
	// Workers is how many Machines are reconciled in parallel. A worker is blocked during each call to the cloud, so there
	// should be as many workers as the cloud accepts parallel calls. Default: 64.
	Workers int
	// Registry registers the controller's metrics. nil means that they are not registered.
	Registry prometheus.Registerer
}

// Reconciler reconciles Machines from their creation to their deletion.
type Reconciler struct {
	options  Options
	store    *scope.Store
	observer *observer
	retries  *steps.Retries
	actions  map[lifecycle.Step]action
	drains   *drain.Pool
	wake     waker
	// conflicts holds the waits of the Machines whose writes have conflicted with a write of another client.
	conflicts ownership.Conflicts
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	o.Timeouts.Drain = cmp.Or(o.Timeouts.Drain, 2*time.Hour)
	o.Timeouts.Volumes = cmp.Or(o.Timeouts.Volumes, 5*time.Minute)
	o.Workers = cmp.Or(o.Workers, 64)
	r := &Reconciler{options: o, conflicts: ownership.NewConflicts()}
	r.retries = steps.NewRetries(o.Control.GetClient(), r.wake.wake)
	r.store = scope.NewStore(scope.Options{
		Client: o.Control.GetClient(), Recorder: o.Control.GetEventRecorder(name),
		Clock: o.Clock, Provider: o.Cloud, Controller: o.Name, Start: o.Nodes.Start, Gone: r.forget,
	})
	r.observer = &observer{
		control: o.Control.GetClient(), target: o.Target.GetClient(), liveControl: o.Control.GetAPIReader(), liveTarget: o.Target.GetAPIReader(),
		cloud: o.Cloud, retries: r.retries, kinds: o.Kinds, reach: o.Reach, nodes: o.Nodes, timeouts: o.Timeouts,
	}
	r.drains = drain.NewPool(drain.PoolOptions{
		Drainer: &drain.Drainer{Client: o.Target.GetClient(), Reader: o.Target.GetAPIReader()},
		Clock:   o.Clock, OnResult: r.wake.wake,
	})
	decisions := steps.NewDecisions()
	if o.Registry != nil {
		o.Registry.MustRegister(decisions, r.store.NotReady)
	}
	r.actions = r.newActions(decisions)
	return r
}

// Reconcile observes one Machine, takes the steps that are possible now, and writes the Machine if the steps changed it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// The object in the informer cache must not be changed, so the scope works on a copy.
	var cached v1alpha1.Machine
	if err := r.options.Control.GetClient().Get(ctx, req.NamespacedName, &cached, client.UnsafeDisableDeepCopy); err != nil {
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
	case errors.Is(err, errCacheOld):
		return ctrl.Result{RequeueAfter: scope.RetryCache}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: r.conflicts.When(req)}, nil
	case err != nil && s.Forced():
		// Repeat the step at a fixed interval, because the back-off of the work queue can become longer than the deadline of a
		// forced deletion.
		ctrl.LoggerFrom(ctx).Error(err, "A step of a forced deletion failed and is repeated")
		return ctrl.Result{RequeueAfter: retryForced}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if !s.Gone {
		s.RequeueForced()
	}
	return ctrl.Result{RequeueAfter: s.RequeueAfter}, nil
}

// forget drops the state of a Machine whose deletion drover did not finish itself, because another client removed the
// Machine's finalizers.
func (r *Reconciler) forget(machine types.UID) {
	r.retries.Groups.Forget(machine)
	r.drains.Forget(machine)
}

// sweepEvery is how often the state of unused groups is dropped.
const sweepEvery = 10 * time.Minute

// sweep drops the state of unused groups periodically until ctx ends.
func (r *Reconciler) sweep(ctx context.Context) error {
	periodic.After(ctx, r.options.Clock, sweepEvery, func(context.Context) { r.retries.Groups.Sweep() })
	return nil
}
