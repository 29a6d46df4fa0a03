package freeze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/patch"
)

const (
	// fieldManager is the field manager of the writes of the freeze controller.
	fieldManager = "drover-safety"
	// gather is how long events of a group are collected before drover decides whether the group is frozen.
	gather = 200 * time.Millisecond
	// again is how soon a group is reconciled again after the API server has shown it in another state than the caches.
	again = 2 * time.Second
	// retryLease is the interval at which a lease that is not fresh is checked again. The lease is renewed every few seconds.
	retryLease = time.Second
	// concurrent is how many groups are reconciled in parallel, so that a group whose writes fail does not delay the others.
	concurrent = 4
)

// Lease reports whether this process may still be the leader.
type Lease interface {
	// Fresh reports whether the lease was renewed recently. It makes no call.
	Fresh(now time.Time) bool
}

// Options configure the controller.
type Options struct {
	// Control is the cluster that holds the MachineDeployments, MachineSets and Machines.
	Control cluster.Cluster
	Clock   clock.PassiveClock
	Limits  Limits
	// Lease is checked in each reconcile of a group. nil means that the lease is always fresh.
	Lease Lease
	// Registry registers the metric. nil means that the metric is not registered.
	Registry prometheus.Registerer
}

// Reconciler freezes groups and ends freezes.
type Reconciler struct {
	options Options
	reading reading
	writes  writes
	sizes   sizes
	frozen  frozenGroups
}

// New returns the controller. It returns an error if the metric cannot be registered.
func New(o Options) (*Reconciler, error) {
	c := o.Control
	r := &Reconciler{
		options: o,
		reading: reading{cache: c.GetClient(), live: c.GetAPIReader()},
		writes:  writes{patch.Writer{Client: c.GetClient(), FieldManager: fieldManager}, c.GetEventRecorder(fieldManager)},
	}
	if o.Registry == nil {
		return r, nil
	}
	return r, o.Registry.Register(&r.frozen)
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	cache := r.options.Control.GetCache()
	for _, object := range []client.Object{&v1alpha1.Machine{}, &v1alpha1.MachineSet{}} {
		if err := cache.IndexField(context.Background(), object, controllerIndex, ownership.ControllerOf); err != nil {
			return err
		}
	}
	return builder.TypedControllerManagedBy[key](mgr).
		Named("freeze").
		WatchesRawSource(source.TypedKind(cache, &v1alpha1.MachineDeployment{}, ownerEvents(r, keyOfDeployment))).
		WatchesRawSource(source.TypedKind(cache, &v1alpha1.MachineSet{}, ownerEvents(r, keyOfSet))).
		WatchesRawSource(source.TypedKind(cache, &v1alpha1.Machine{}, r.machineEvents())).
		WithOptions(controller.TypedOptions[key]{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[key](5*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// Reconcile decides whether one group is frozen, and updates the conditions, labels and annotations of its objects. It writes
// nothing before live reads from the API server have confirmed the state in the caches.
func (r *Reconciler) Reconcile(ctx context.Context, k key) (ctrl.Result, error) {
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("group", k.kind()+" "+k.String()))
	g, err := r.reading.cached(ctx, k)
	if err != nil {
		return ctrl.Result{}, err
	}
	if g == nil {
		r.frozen.set(k, nil, false)
		r.sizes.forget(k)
		return ctrl.Result{}, nil
	}
	now := r.options.Clock.Now()
	if r.options.Lease != nil && !r.options.Lease.Fresh(now) {
		return ctrl.Result{RequeueAfter: retryLease}, nil
	}
	g.Former = r.sizes.largest(k, now)
	v := Judge(g, r.options.Limits, now)
	if len(converge(g, v, now)) == 0 {
		r.frozen.set(k, g, v.Frozen)
		return ctrl.Result{RequeueAfter: r.options.Limits.Period}, nil
	}
	return r.act(ctx, k, g.Former)
}

// act decides again whether a group is frozen, this time from live reads, and writes the result. former is the group's former
// bound (see Group.Former).
func (r *Reconciler) act(ctx context.Context, k key, former int) (ctrl.Result, error) {
	g, err := r.reading.current(ctx, k)
	if g == nil || err != nil {
		return ctrl.Result{}, err
	}
	g.Former = former
	now := r.options.Clock.Now()
	v := Judge(g, r.options.Limits, now)
	r.frozen.set(k, g, v.Frozen)
	changes := converge(g, v, now)
	if len(changes) == 0 {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	var errs []error
	for _, c := range changes {
		errs = append(errs, r.writes.carryOut(ctx, c, v))
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, fmt.Errorf("freezing or unfreezing a group: %w", err)
	}
	return ctrl.Result{RequeueAfter: r.options.Limits.Period}, nil
}
