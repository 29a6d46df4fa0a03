package set

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/machines/safety/reach"
)

// retryReach is the interval at which a set that lacks Machines is reconciled while drover cannot reach an API server.
const retryReach = 5 * time.Second

// firstLook is the interval at which a set that has been frozen for less than the period of the flag is reconciled.
const firstLook = 5 * time.Second

// stoppedAfter is how long the reconciles of a set must fail before its status shows it. Most failures end with one of the first retries.
const stoppedAfter = time.Minute

// Options configure the MachineSet controller.
type Options struct {
	// Control is the cluster that holds the MachineSets and Machines.
	Control cluster.Cluster
	Clock   clock.PassiveClock
	// Suffix returns the last part of a Machine's name: five letters and digits. It never returns the same suffix twice. Required.
	Suffix func() string
	// Lease is checked before each reconcile and before each create of a Machine. nil means that the lease is always fresh.
	Lease Lease
	// Reach reports whether the API servers answer. While they do not answer, the controller creates no Machine. nil means that they
	// always answer.
	Reach *reach.Watch
	// PlaceRecord returns the status.providerStatus for a new Machine of a template: the place where its cloud resources will be created.
	// When the function is nil or returns nil, the Machine is created without a status.providerStatus.
	PlaceRecord func(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension
	// SafetyUp is by how many Machines a set or its deployment may exceed its limit before the set is frozen (see [ownership.Freezes]). Default:
	// 2. With a negative value no set is frozen. SafetyDown is how many Machines fewer than those that freeze the set set it free. Default: 1.
	SafetyUp, SafetyDown int
	// FreezePeriod is the interval at which a frozen set is reconciled, because the deletion of a Machine that counts and does not belong to
	// the set does not enqueue the set. Default: a minute.
	FreezePeriod time.Duration
	// Frozen is the metric of frozen objects. nil means that there is none.
	Frozen *prometheus.GaugeVec
}

// Reconciler keeps MachineSets at their size.
type Reconciler struct {
	client client.Client
	writer ownership.Writer
	// refs writes the Machines' owner references to their set.
	refs     ownership.RefManager[*v1alpha1.Machine]
	events   events.EventRecorder
	clock    clock.PassiveClock
	expected *expectations
	// named remembers the entries of spec.removals of each set without a deployment, to restore those that a client's write loses.
	named    ownership.Removals
	statuses *statuses
	freezes  ownership.Freezes
	options  Options
	// conflicts holds the back-off of sets that the informer cache shows in an older version than the API server has.
	conflicts ownership.Conflicts
}

// New returns the controller.
func New(o Options) *Reconciler {
	return assemble(o, o.Control.GetClient(), o.Control.GetAPIReader(), o.Control.GetEventRecorder(FieldManager))
}

func assemble(o Options, c client.Client, live client.Reader, recorder events.EventRecorder) *Reconciler {
	o.SafetyUp, o.SafetyDown, o.FreezePeriod = cmp.Or(o.SafetyUp, 2), cmp.Or(o.SafetyDown, 1), cmp.Or(o.FreezePeriod, time.Minute)
	writer := ownership.Writer{Client: c, FieldManager: FieldManager}
	r := &Reconciler{
		client: c, writer: writer, events: recorder, clock: o.Clock, options: o, conflicts: ownership.NewConflicts(),
		expected: newExpectations(live, o.Clock),
		statuses: &statuses{ownership.Statuses{Writer: writer, Clock: o.Clock}},
		freezes:  ownership.Freezes{Kind: v1alpha1.MachineSetKind.Kind, Writer: writer, Events: recorder, Metric: o.Frozen},
	}
	r.refs = ownership.RefManager[*v1alpha1.Machine]{
		Writer: writer, Live: live, Owners: v1alpha1.MachineSetKind, Objects: v1alpha1.MachineKind, List: r.controlledBy,
		MadeFor: v1alpha1.IsMachineNameOf, Released: r.expected.gone,
	}
	return r
}

// SetupWithManager registers the controller with the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.options.Suffix == nil {
		return errors.New("the controller of MachineSets needs a source of names: set Options.Suffix")
	}
	cache := r.options.Control.GetCache()
	for name, index := range map[string]client.IndexerFunc{controllerIndex: ownership.ControllerOf, madeIndex: baseOf} {
		if err := cache.IndexField(context.Background(), &v1alpha1.Machine{}, name, index); err != nil {
			return err
		}
	}
	if err := cache.IndexField(context.Background(), &v1alpha1.MachineSet{}, controllerIndex, ownership.ControllerOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineset").
		WatchesRawSource(r.sets(cache)).
		WatchesRawSource(source.Kind(cache, &v1alpha1.Machine{}, r.machineEvents())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10, RateLimiter: ownership.Retries()}).
		Complete(r)
}

// sets watches MachineSets: it enqueues a set when it changes. For a set without a deployment it also records the entries of spec.removals, and
// reports a new writer of its size.
func (r *Reconciler) sets(c cache.Cache) source.Source {
	named := func(s *v1alpha1.MachineSet) []v1alpha1.Removal {
		if metav1.GetControllerOfNoCopy(s) != nil {
			return nil
		}
		return s.Spec.Removals
	}
	replicas := func(s *v1alpha1.MachineSet) *int32 {
		if metav1.GetControllerOfNoCopy(s) != nil {
			return nil
		}
		return s.Spec.Replicas
	}
	return source.Kind(c, &v1alpha1.MachineSet{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.MachineSet]{},
		ownership.Remembering(&r.named, named), ownership.ReportingWriters(r.events, replicas))
}

// machineEvents enqueues the set of a Machine when the Machine is created, changed or deleted.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, ctrl.Request] {
	return ownership.Events[*v1alpha1.Machine]{
		Kind: v1alpha1.MachineSetKind.Kind, Gather: gather, Gone: r.expected.gone, Reader: r.client, Owners: &v1alpha1.MachineSetList{}, MadeFor: v1alpha1.IsMachineNameOf,
	}.Handler()
}

// Reconcile compares one set with its Machines, and creates or deletes Machines.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.MachineSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		r.expected.sets.Forget(req.NamespacedName)
		r.statuses.Forget(req.NamespacedName)
		r.freezes.Forget(req.NamespacedName)
		r.conflicts.Forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() || v1alpha1.Paused(set.Annotations) {
		r.freezes.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if r.leaseOld() {
		return ctrl.Result{RequeueAfter: retryLease}, nil
	}
	if _, current := r.named.Of(set); !current {
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	result, err := r.reconcile(ctx, set)
	return r.conflicts.Result(ctx, req, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, set *v1alpha1.MachineSet) (ctrl.Result, error) {
	if set.Spec.Replicas != nil && *set.Spec.Replicas < 0 {
		return ctrl.Result{}, r.replaceNegativeSize(ctx, set)
	}
	selector, invalid := check(set)
	if invalid != nil {
		return ctrl.Result{}, r.refuse(ctx, set, invalid)
	}
	if err := ownership.EnsureFinalizer(ctx, r.writer, set); err != nil {
		return ctrl.Result{}, r.stopped(ctx, set, err)
	}
	machines, err := r.refs.Claim(ctx, set, selector)
	if err != nil {
		return ctrl.Result{}, r.stopped(ctx, set, err)
	}
	seen, next, err := r.plan(ctx, set, machines)
	if err != nil {
		return ctrl.Result{}, r.stopped(ctx, set, err)
	}
	wait := seen.verifyIn
	if err := r.writeOwned(ctx, set, next, &wait, machines); err != nil {
		return ctrl.Result{}, r.stopped(ctx, set, err)
	}
	unlimited := r.limitCreates(ctx, seen, &next, &wait)
	acted := r.act(ctx, set, next)
	if errors.Is(acted, errLeaseOld) {
		// This process may have lost the lease. The new leader writes the status.
		return ctrl.Result{RequeueAfter: retryLease}, nil
	}
	if unlimited == nil {
		unlimited = r.showFreeze(ctx, set, &next, acted)
	}
	if unlimited != nil {
		return ctrl.Result{}, r.stopped(ctx, set, errors.Join(unlimited, acted))
	}
	r.expected.notStopped(set)
	return r.report(ctx, seen, next, seen.status(selector), wait, acted)
}

// report writes the status of a set after it was compared with its Machines. acted is the error of what was done then.
func (r *Reconciler) report(ctx context.Context, seen observed, next decision, status v1alpha1.MachineSetStatus, wait time.Duration, acted error) (ctrl.Result, error) {
	set := seen.set
	status.LastPlaceholderSeries = cmp.Or(set.Spec.PlaceholderSeries, set.Status.LastPlaceholderSeries)
	if failed := errors.Join(acted, next.waits); failed != nil {
		reason := reasonOf(acted, next.waits)
		status.ErrorReason, status.ErrorMessage = &reason, bounded(failed.Error()+remedy(acted))
		if acted != nil && ptr.Deref(set.Status.ErrorReason, "") != reason {
			r.events.Eventf(set, nil, "Warning", reason, "Create", "%s", *status.ErrorMessage)
		}
	} else if next.create > 0 || len(next.remove) > 0 {
		// The counts in the status are about to change. The status is written once, as soon as the cache shows the new Machines
		// and the deletions.
		return ctrl.Result{RequeueAfter: gather}, nil
	} else {
		seen.keepError(&status)
	}
	status.Conditions = conditions(set, status, next, r.clock.Now())
	later, err := r.statuses.writeWhenDue(ctx, set, status)
	return ctrl.Result{RequeueAfter: rollout.Soonest(rollout.Soonest(wait, seen.availableIn), later)}, errors.Join(acted, err)
}

// plan decides what to do with a set. Before it returns a decision that creates Machines or chooses Machines for deletion, it
// checks that the informer cache shows the current spec of the set. The first such check in this process also compares the cache
// with the Machines in the API server. If they differ, plan decides again.
func (r *Reconciler) plan(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (observed, decision, error) {
	wait, err := r.expected.verify(ctx, set, machines)
	if err != nil {
		return observed{}, decision{}, err
	}
	look := func() observed {
		return observe(set, machines, r.removals(set), r.expected.unconfirmed(set), r.clock.Now())
	}
	s := look()
	d := decide(s)
	if d.create > 0 || d.surplus > 0 {
		news, err := r.expected.readSetLive(ctx, set, machines)
		if err != nil {
			return observed{}, decision{}, err
		}
		if news {
			s = look()
			d = decide(s)
		}
	}
	s.verifyIn = wait
	return s, d, nil
}

// limitCreates lowers the number of Machines that a decision creates: as far as the set is frozen, and to 0 while drover cannot reach an API
// server. In both cases it shortens wait, so that the set is reconciled again soon. While it returns an error, the decision creates none.
func (r *Reconciler) limitCreates(ctx context.Context, seen observed, d *decision, wait *time.Duration) error {
	if err := r.freeze(ctx, seen, d); err != nil {
		d.create = 0
		return err
	}
	if d.frozen != "" {
		// The deletion of a Machine of another set does not enqueue this one. Most freezes end with the next deletions.
		again := r.options.FreezePeriod
		if c := meta.FindStatusCondition(seen.set.Status.Conditions, v1alpha1.ConditionFrozen); c == nil || c.Status != metav1.ConditionTrue || r.clock.Since(c.LastTransitionTime.Time) < again {
			again = min(again, firstLook)
		}
		*wait = rollout.Soonest(*wait, again)
	}
	if stale, _ := r.options.Reach.Stale(); d.create > 0 && stale != "" {
		// The informer cache may be out of date: Machines that it does not show may exist.
		d.create, *wait = 0, rollout.Soonest(*wait, retryReach)
		d.held = stale + "; no Machine is created before it answers"
	}
	return nil
}

// refuse writes a status that describes what is invalid in the spec.
func (r *Reconciler) refuse(ctx context.Context, set *v1alpha1.MachineSet, invalid error) error {
	reason := reasonInvalid
	if errors.Is(invalid, rollout.ErrSizeTooLarge) {
		reason = reasonSize
	}
	st := failedStatus(set, reason, invalid, r.clock.Now())
	if set.Spec.Replicas != nil || set.Status.ObservedGeneration != 0 {
		// Otherwise the set would count as observed, and get the size 0 when its spec is corrected.
		st.ObservedGeneration = set.Generation
	}
	if reported := set.Status.ErrorMessage; reported == nil || *reported != *st.ErrorMessage {
		r.events.Eventf(set, nil, "Warning", reason, "Reconcile", "%s", invalid.Error())
	}
	return r.statuses.write(ctx, set, st)
}

// stopped returns an error that keeps the controller from comparing a set with its Machines, and shows it when reconciles have failed for
// stoppedAfter. It does not show that the set has changed since it was read: the next reconcile follows at once. The error of a create
// stays until the next attempt (decision 0030), because the autoscaler acts upon it. The observed generation stays, too: nothing was done
// for the new spec, and the size of a set that was never observed is 1.
func (r *Reconciler) stopped(ctx context.Context, set *v1alpha1.MachineSet, err error) error {
	if ownership.IsConflict(err) {
		return err
	}
	since := r.expected.stopped(set)
	if r.clock.Since(since) < stoppedAfter || fault.ConcernsObjects(fault.Code(ptr.Deref(set.Status.ErrorReason, ""))) {
		return err
	}
	st := failedStatus(set, reasonStopped, fmt.Errorf("%w; %s", err, fault.PolicyOf(fault.Transient).Remedy), since)
	_, failed := r.statuses.writeWhenDue(ctx, set, st)
	return errors.Join(err, failed)
}

// act deletes Machines before it creates new ones.
func (r *Reconciler) act(ctx context.Context, set *v1alpha1.MachineSet, d decision) error {
	deleted := r.delete(ctx, set, d.remove)
	if d.create == 0 {
		return deleted
	}
	return errors.Join(deleted, r.create(ctx, set, d.create))
}

// check validates what the CRD cannot validate: that the selector matches the labels of the template.
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
