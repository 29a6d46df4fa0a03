package health

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/ownership"
)

// name is the name of the controller, which is also its field manager and the reporter of its Events.
const name = "drover-health"

const (
	// pace is the minimum time between two rounds.
	pace = time.Second
	// retry is the wait after a failed write or live read, and while the caches are not trusted.
	retry = 2 * time.Second
)

// Options configure a [Reconciler].
type Options struct {
	// Control is the cluster of the Machines, Target the cluster of their Nodes.
	Control, Target cluster.Cluster
	Clock           clock.PassiveClock
	// Lease is checked before each deletion. nil means that the lease is always fresh.
	Lease cloud.Lease
	// Trust returns why the caches may be out of date, for example because an API server does not answer, and since when they
	// are up to date again. An empty reason means that they are up to date. If Trust is nil, the caches are always trusted.
	Trust func() (stale string, since time.Time)
	// Controller is the required value of the label machine.k8s.io/controller of a Machine. Other Machines are ignored.
	Controller string
	Settings   verdict.Settings
	// Registry registers the metrics. nil means that they are not registered.
	Registry prometheus.Registerer
}

// Reconciler replaces unhealthy Machines.
type Reconciler struct {
	options Options
	events  events.EventRecorder
	writer  ownership.Writer
	metrics *metrics

	// Only one round runs at a time, and only that round uses the fields below.

	// began is when this process started its first round after it acquired the lease, last when it started its last round.
	began, last time.Time
	// seen is what the verdict of the last round has passed on to the next one.
	seen verdict.Seen
}

// New returns a Reconciler. It returns an error if the metrics cannot be registered.
func New(o Options) (*Reconciler, error) {
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	writer := ownership.Writer{Client: o.Control.GetClient(), FieldManager: name}
	return &Reconciler{options: o, events: o.Control.GetEventRecorder(name), writer: writer, metrics: m}, nil
}

// pass is the only reconcile request that the controller uses, because every round covers all Machines.
var pass = ctrl.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager adds the controller to the manager. Each change of a Machine, a set or a deployment starts a round, and each change of a
// Node that a verdict depends on.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	control, target := r.options.Control.GetCache(), r.options.Target.GetCache()
	relevant := predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool { return nodeMatters(e.ObjectOld, e.ObjectNew) }}
	return ctrl.NewControllerManagedBy(mgr).
		Named("health").
		WatchesRawSource(source.Kind(target, &corev1.Node{}, wakes[*corev1.Node](), relevant)).
		WatchesRawSource(source.Kind(control, &v1alpha1.Machine{}, wakes[*v1alpha1.Machine]())).
		WatchesRawSource(source.Kind(control, &v1alpha1.MachineSet{}, wakes[*v1alpha1.MachineSet]())).
		WatchesRawSource(source.Kind(control, &v1alpha1.MachineDeployment{}, wakes[*v1alpha1.MachineDeployment]())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: ownership.Retries()}).
		Complete(r)
}

// wakes returns a handler that starts a round.
func wakes[T client.Object]() handler.TypedEventHandler[T, ctrl.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []ctrl.Request { return []ctrl.Request{pass} })
}

// nodeMatters reports whether a Node was replaced by another object, or its owner or the state of a condition has changed. Other updates,
// such as heartbeats in conditions, do not matter.
func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || v1alpha1.NodeOwner(before.Labels, before.Annotations) != v1alpha1.NodeOwner(after.Labels, after.Annotations) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.NodeCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}

// Reconcile runs one round over all Machines.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.options.Clock.Now()
	if wait := r.last.Add(pace).Sub(now); wait > 0 && wait <= pace {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.last = now
	if r.began.IsZero() {
		r.began = now
	}
	if !r.leading() {
		return ctrl.Result{RequeueAfter: pace}, nil
	}
	w := &verdict.World{Now: now, Began: r.began, Settings: r.options.Settings, Seen: r.seen}
	if r.options.Trust != nil {
		stale, since := r.options.Trust()
		if stale != "" {
			return ctrl.Result{RequeueAfter: retry}, nil
		}
		if since.After(w.Began) {
			w.Began = since
		}
	}
	if err := r.read(ctx, w); err != nil {
		return ctrl.Result{}, err
	}
	plan := verdict.Judge(w)
	r.seen = plan.Seen
	r.metrics.show(&plan, now)
	wait := max(pace, plan.NextLook.Sub(now))
	if !r.carryOut(ctx, w, &plan) {
		wait = retry
	} else if plan.NextLook.IsZero() {
		wait = 0
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// carryOut replaces Machines, and writes the conditions of Machines and the status of groups. It reports whether nothing is left for
// the next round.
func (r *Reconciler) carryOut(ctx context.Context, w *verdict.World, plan *verdict.Plan) (done bool) {
	var failed []error
	for i := range plan.Groups {
		failed = append(failed, r.replaceIn(ctx, w, &plan.Groups[i])...)
	}
	failed = append(failed, r.showConditions(ctx, plan, metav1.NewTime(w.Now))...)
	for _, err := range failed {
		if !errors.Is(err, errLater) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Error(err, "Replacing unhealthy Machines failed and is repeated")
		}
	}
	return len(failed) == 0
}

// leading reports whether this process may still be the leader.
func (r *Reconciler) leading() bool {
	return r.options.Lease == nil || r.options.Lease.Fresh(r.options.Clock.Now())
}
