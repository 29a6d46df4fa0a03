// Package set keeps MachineSets at their size: it adopts, makes and deletes Machines, and counts them.
//
// It never sees a cloud, nor a Node: a Machine's Ready condition follows its Node's, and a change of it wakes the set.
package set

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// FieldManager owns what this controller writes.
const FieldManager = "drover-machineset"

// gather is how long events of Machines are collected before their set is looked at: one look, and one status write,
// for all that happened meanwhile.
const gather = 200 * time.Millisecond

// ceilingAgain is when a set at its ceiling is looked at again; a released Machine that goes wakes nobody.
const ceilingAgain = time.Minute

// Options are what the controller needs.
type Options struct {
	// Control is the cluster that holds the MachineSets and Machines.
	Control cluster.Cluster
	Clock   clock.PassiveClock
	// Suffix makes the last part of a Machine's name: five letters and digits that no other has. Required.
	Suffix func() string
	// Lease is looked at before each set and before each Machine that is made. nil: it is always fresh.
	Lease Lease
	// PlaceRecord returns what the status of a new Machine of this template records beside its finalizers: where its resources
	// will be made. nil, as a function or as its result: nothing is recorded.
	PlaceRecord func(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension
	// Concurrent is how many sets are worked on at once. Default: 10.
	Concurrent int
	// AllowedNamespaces are those whose MachineClasses and Secrets objects of other namespaces may use.
	AllowedNamespaces []string
}

// Lease says whether this process may still be the only one that acts (design §3).
type Lease interface {
	// Fresh tells whether it was renewed lately. It makes no call itself.
	Fresh(now time.Time) bool
}

// retryLease is how soon to look at the lease again: it is renewed every few seconds.
const retryLease = time.Second

// errLeaseOld ends a pass in the middle of which the lease has become too old.
var errLeaseOld = errors.New("the lease was not renewed in time")

func (r *Reconciler) leaseOld() bool {
	return r.options.Lease != nil && !r.options.Lease.Fresh(r.clock.Now())
}

// Reconciler keeps MachineSets at their size.
type Reconciler struct {
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	clock   clock.PassiveClock
	suffix  func() string
	pending *pending
	pace    ownership.Pace
	// named are the removals that sets without a deployment have named.
	named   ownership.Removals
	options Options
}

// New returns the controller.
func New(o Options) *Reconciler {
	if o.Concurrent <= 0 {
		o.Concurrent = 10
	}
	return &Reconciler{
		client: o.Control.GetClient(), live: o.Control.GetAPIReader(), events: o.Control.GetEventRecorder(FieldManager),
		clock: o.Clock, suffix: o.Suffix, pending: newPending(), options: o,
	}
}

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.suffix == nil {
		return errors.New("the controller of MachineSets needs a source of names: set Options.Suffix")
	}
	cache := r.options.Control.GetCache()
	for name, index := range map[string]client.IndexerFunc{controllerIndex: ownership.ControllerOf, releasedIndex: releasedBy} {
		if err := cache.IndexField(context.Background(), &v1alpha1.Machine{}, name, index); err != nil {
			return err
		}
	}
	if err := r.setupClasses(mgr, cache); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineset").
		WatchesRawSource(source.Kind(cache, &v1alpha1.MachineSet{}, r.setEvents())).
		WatchesRawSource(source.Kind(cache, &v1alpha1.Machine{}, r.machineEvents())).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Concurrent}).
		Complete(r)
}

// Reconcile brings one set a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.MachineSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		r.pending.forget(req.NamespacedName)
		r.pace.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() || v1alpha1.Paused(set.Annotations) {
		return ctrl.Result{}, nil
	}
	if r.leaseOld() {
		return ctrl.Result{RequeueAfter: retryLease}, nil
	}
	if _, current := r.named.Of(set); !current {
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	result, err := r.reconcile(ctx, set)
	if apierrors.IsConflict(err) || errors.Is(err, errCacheOld) {
		ctrl.LoggerFrom(ctx).V(1).Info("the set changed meanwhile, looking again")
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, set *v1alpha1.MachineSet) (ctrl.Result, error) {
	if set.Spec.Replicas != nil && *set.Spec.Replicas < 0 {
		return ctrl.Result{}, r.heal(ctx, set)
	}
	selector, invalid := check(set)
	if invalid != nil {
		return ctrl.Result{}, r.refuse(ctx, set, invalid)
	}
	if err := r.writer().EnsureFinalizer(ctx, set); err != nil {
		return ctrl.Result{}, err
	}
	machines, err := r.claim(ctx, set, selector)
	if err != nil {
		return ctrl.Result{}, err
	}
	seen, next, err := r.plan(ctx, set, machines)
	if err != nil {
		return ctrl.Result{}, err
	}
	wait := seen.settleIn
	if err := r.ownSpec(ctx, set, next, &wait, machines); err != nil {
		return ctrl.Result{}, err
	}
	ceilinged, err := r.boundByCeiling(ctx, set, &next)
	if err != nil {
		return ctrl.Result{}, err
	}
	if ceilinged != nil {
		wait = soonest(wait, ceilingAgain)
	}
	acted := r.act(ctx, set, next)
	if errors.Is(acted, errLeaseOld) {
		// Who leads now says how things are with the set.
		return ctrl.Result{RequeueAfter: retryLease}, nil
	}
	status := seen.status(selector)
	status.LastPlaceholderSeries = cmp.Or(set.Spec.PlaceholderSeries, set.Status.LastPlaceholderSeries)
	if failed := errors.Join(acted, ceilinged); failed != nil {
		reason := reasonCreate
		if acted == nil {
			reason = reasonCeiling
		}
		status.ErrorReason, status.ErrorMessage = &reason, bounded(failed.Error())
	} else if next.create > 0 || len(next.remove) > 0 {
		// The numbers are about to change: they are written once, when the cache shows what was done.
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	status.Conditions = conditions(set, status, next.wanted, metav1.NewTime(r.clock.Now()))
	later, err := r.showStatus(ctx, set, status)
	return ctrl.Result{RequeueAfter: soonest(soonest(wait, seen.availableIn), later)}, errors.Join(acted, err)
}

// boundByCeiling keeps a decision below the set's ceiling; ceilinged says what is not made, told in an Event when it is
// new.
func (r *Reconciler) boundByCeiling(ctx context.Context, set *v1alpha1.MachineSet, d *decision) (ceilinged, err error) {
	if d.create == 0 {
		return nil, nil
	}
	released, err := r.released(ctx, set)
	if err != nil {
		return nil, err
	}
	d.create, ceilinged = underCeiling(d.create, d.wanted, released)
	if told := set.Status.ErrorReason; ceilinged != nil && (told == nil || *told != reasonCeiling) {
		r.events.Eventf(set, nil, "Warning", reasonCeiling, "Create", "%s", ceilinged.Error())
	}
	return ceilinged, nil
}

// refuse tells people what in the spec cannot be followed; nothing else is done.
func (r *Reconciler) refuse(ctx context.Context, set *v1alpha1.MachineSet, invalid error) error {
	reason := reasonInvalid
	if errors.Is(invalid, rollout.ErrSizeTooLarge) {
		reason = reasonSize
	}
	st := failedStatus(set, reason, invalid, metav1.NewTime(r.clock.Now()))
	if told := set.Status.ErrorMessage; told == nil || *told != *st.ErrorMessage {
		r.events.Eventf(set, nil, "Warning", reason, "Reconcile", "%s", invalid.Error())
	}
	return r.writeStatus(ctx, set, st)
}

// act deletes first and makes then, so that a stale view never makes what it deletes.
func (r *Reconciler) act(ctx context.Context, set *v1alpha1.MachineSet, d decision) error {
	deleted := r.deleteMachines(ctx, set, d.remove)
	if d.create == 0 {
		return deleted
	}
	return errors.Join(deleted, r.createMachines(ctx, set, d.create))
}

// check refuses a set that cannot be followed.
func check(set *v1alpha1.MachineSet) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	if selector.Empty() || !selector.Matches(labels.Set(set.Spec.Template.Metadata.Labels)) {
		return nil, errSelector
	}
	return selector, errors.Join(rollout.CheckSize(set.Spec.Replicas), rollout.CheckDeletePolicy(set.Spec.DeletePolicy))
}

var errSelector = errors.New("spec.selector does not match spec.template.metadata.labels (or is empty): add the selector's labels to the template")

func soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}
