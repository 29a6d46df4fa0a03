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
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/periodic"
	"github.com/drover-project/drover/machines/safety/reach"
)

// name is the name of the controller, which is also its field manager and the reporter of its Events.
const name = "drover-machine"

const fieldOwner = client.FieldOwner(name)

// When a write conflicts with a write of another client, the reconcile is repeated after retryConflict. The wait doubles each
// time, up to longestConflict, because the watch event of the other write may be minutes late.
const (
	retryConflict   = 200 * time.Millisecond
	longestConflict = 10 * time.Second
)

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
	Kinds observe.Kinds
	// StartupTaint is the key of the taint (NoSchedule) with which a Node registers, and which drover removes when the Node's
	// first start is complete. Empty means that there is no such taint. The first start is complete when the Node is Ready,
	// has no start-up taint of Kubernetes (uninitialized, not-ready, unreachable, network-unavailable), and meets the
	// conditions of the three fields below. The Machine is not Ready before that.
	StartupTaint string
	// StartupConditions are the conditions that must be True on the Node for its first start to be complete.
	StartupConditions []corev1.NodeConditionType
	// StartupDaemonSets are the DaemonSets that must have a Ready pod on the Node for its first start to be complete.
	StartupDaemonSets []types.NamespacedName
	// OtherStartupTaints are keys of taints (NoSchedule or NoExecute) that other programs must have removed from the Node for
	// its first start to be complete.
	OtherStartupTaints []string
	// AllowedNodeLabels are the keys of reserved labels (see [v1alpha1.IsReservedNodeLabel]) that Nodes may get from their Machines.
	// Other reserved labels are not put on Nodes.
	AllowedNodeLabels []string
	// HostLabel puts the label [v1alpha1.LabelPhysicalHost] on Nodes.
	HostLabel bool
	// GPULabel is the key of the label that holds the type of a Node's GPUs; empty when there is none. GPUResource is the name under which
	// Nodes report GPUs, in addition to the usual names.
	GPULabel    string
	GPUResource corev1.ResourceName
	// DrainTimeout is how long a drain respects PodDisruptionBudgets, counted from the deletion of the Machine. Default: 2 h.
	// A negative value means that pods are not evicted at all.
	DrainTimeout time.Duration
	// VolumeDetachTimeout is how long the controller waits until the volumes of evicted pods are detached. Default: 5 min. A
	// negative value means that it does not wait.
	VolumeDetachTimeout time.Duration
	// JoinTimeout is how long a server may take, from its creation, to become a Node. 0 means that there is no limit.
	JoinTimeout time.Duration
	// Workers is how many Machines are reconciled in parallel. A worker is blocked during each call to the cloud, so there
	// should be as many workers as the cloud accepts parallel calls. Default: 64.
	Workers int
	// DrainWorkers is how many nodes are drained in parallel. Default: 10.
	DrainWorkers int
	// Registry registers the controller's metrics. nil means that they are not registered.
	Registry prometheus.Registerer
}

// Reconciler reconciles Machines from their creation to their deletion.
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
	retries  *steps.Retries
	actions  map[lifecycle.Step]action
	drains   *drain.Pool
	wake     waker
	// conflicts holds the waits of the Machines whose writes have conflicted.
	conflicts workqueue.TypedRateLimiter[reconcile.Request]

	powerDecisions *prometheus.CounterVec
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	o = o.withDefaults()
	r := newObserving(o)
	r.powerDecisions = steps.NewDecisions()
	if o.Registry != nil {
		o.Registry.MustRegister(r.powerDecisions, r.store.NotReady)
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

// start returns the rules that decide when the first start of a Node is complete.
func (o *Options) start() nodes.StartRules {
	return nodes.StartRules{
		Taint: o.StartupTaint, Conditions: o.StartupConditions, DaemonSets: o.StartupDaemonSets, OtherTaints: o.OtherStartupTaints,
	}
}

// newObserving returns a Reconciler that can observe Machines and takes no step.
func newObserving(o Options) *Reconciler {
	r := &Reconciler{
		control: o.Control, target: o.Target, cloud: o.Cloud, clock: o.Clock, lease: o.Lease, reach: o.Reach, workers: o.Workers,
		conflicts: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryConflict, longestConflict),
	}
	r.retries = steps.NewRetries(o.Control.GetClient(), fieldOwner, r.wake.wake)
	r.store = scope.NewStore(scope.Options{
		Client: o.Control.GetClient(), FieldOwner: fieldOwner, Recorder: o.Control.GetEventRecorder(name),
		Clock: o.Clock, Provider: o.Cloud, Controller: o.Name, Start: o.start(), Gone: r.forget,
	})
	r.observer = observe.New(observe.Options{
		Control: o.Control.GetClient(), Target: o.Target.GetClient(), LiveControl: o.Control.GetAPIReader(), Live: o.Target.GetAPIReader(),
		Cloud: o.Cloud, Backoffs: r.retries, Kinds: o.Kinds, Reach: o.Reach, Start: o.start(), AllowedNodeLabels: o.AllowedNodeLabels,
		Timeouts: lifecycle.Timeouts{Drain: o.DrainTimeout, Volumes: o.VolumeDetachTimeout, Join: o.JoinTimeout},
	})
	return r
}

// Reconcile observes one Machine, takes the steps that are possible now, and writes the Machine if the steps changed it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// The object in the informer cache must not be changed, so the scope works on a copy.
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
	r.retries.Leave(machine)
	if r.drains != nil {
		r.drains.Forget(machine)
	}
}

// sweepEvery is how often the state of unused groups is dropped.
const sweepEvery = 10 * time.Minute

// sweep drops the state of unused groups periodically until ctx ends.
func (r *Reconciler) sweep(ctx context.Context) error {
	periodic.After(ctx, r.clock, sweepEvery, func(context.Context) { r.retries.Sweep() })
	return nil
}
