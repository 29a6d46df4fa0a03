package deployment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// Options configure the MachineDeployment controller.
type Options struct {
	// Control is the cluster that holds the MachineDeployments, MachineSets and Machines.
	Control cluster.Cluster
	// Target is the cluster that the Nodes of these Machines join. Default: Control.
	Target cluster.Cluster
	Clock  clock.PassiveClock
	// MaxReplacing limits how many Machines of all deployments together are replaced at the same time; 0 means no limit.
	MaxReplacing int
	// Frozen is the metric of frozen objects. nil means that there is none.
	Frozen *prometheus.GaugeVec
}

// Reconciler carries out the plans of MachineDeployments.
type Reconciler struct {
	client   client.Client
	clock    clock.PassiveClock
	sets     *sets
	limit    *replacementLimit
	debounce *debounce
	writes   writes
	nodes    rolledNodes
	plans    *history
	statuses *statuses
	freezes  ownership.Freezes
	// named remembers the entries of spec.removals of each deployment, and its last size, to restore what a client's write loses.
	named   ownership.Removals
	options Options
	// conflicts holds the back-offs of deployments whose last reconcile ended because an object had changed since drover read it.
	conflicts ownership.Conflicts
}

// New returns the controller.
func New(o Options) *Reconciler {
	if o.Target == nil {
		o.Target = o.Control
	}
	return assemble(o, o.Control.GetClient(), o.Target.GetClient(), o.Control.GetAPIReader(), o.Control.GetEventRecorder(fieldManager))
}

// assemble returns the controller with its clients. live reads from the API server itself, without a cache.
func assemble(o Options, control, target client.Client, live client.Reader, recorder events.EventRecorder) *Reconciler {
	writer := ownership.Writer{Client: control, FieldManager: fieldManager}
	r := &Reconciler{
		client: control, clock: o.Clock, options: o, conflicts: ownership.NewConflicts(),
		debounce: &debounce{live: live, clock: o.Clock},
		writes:   writes{Writer: writer, live: live, events: recorder},
		nodes:    rolledNodes{ownership.Writer{Client: target, FieldManager: fieldManager}},
		plans:    &history{},
		statuses: &statuses{Statuses: ownership.Statuses{Writer: writer, Clock: o.Clock}, events: recorder},
		freezes:  ownership.Freezes{Kind: v1alpha1.MachineDeploymentKind.Kind, Writer: writer, Events: recorder, Metric: o.Frozen},
	}
	r.sets = newSets(writer, live)
	r.limit = newReplacementLimit(int32(min(max(o.MaxReplacing, 0), math.MaxInt32)), r.sets)
	return r
}

// ServeHTTP returns the last plans of deployments as JSON.
func (r *Reconciler) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.plans.ServeHTTP(w, req) }

// SetupWithManager registers the controller with the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	cache := r.options.Control.GetCache()
	for _, object := range []client.Object{&v1alpha1.Machine{}, &v1alpha1.MachineSet{}} {
		if err := cache.IndexField(context.Background(), object, controllerIndex, ownership.ControllerOf); err != nil {
			return err
		}
	}
	if err := cache.IndexField(context.Background(), &v1alpha1.MachineSet{}, madeIndex, baseOf); err != nil {
		return err
	}
	if err := r.options.Target.GetCache().IndexField(context.Background(), &corev1.Node{}, rollingIndex, rollingDeployment); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machinedeployment").
		WatchesRawSource(r.deployments(cache)).
		WatchesRawSource(r.machineSets(cache)).
		WatchesRawSource(source.Kind(cache, &v1alpha1.Machine{}, r.machineEvents())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10, RateLimiter: ownership.Retries()}).
		Complete(r)
}

// Reconcile makes a plan for one deployment and carries it out. When a deployment is being deleted, the garbage collector deletes the
// objects that it owns; the deployment's finalizer waits for the sets (MC-31).
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &v1alpha1.MachineDeployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		r.conflicts.Forget(req)
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName, err)
	}
	if !d.DeletionTimestamp.IsZero() || v1alpha1.Paused(d.Annotations) {
		r.freezes.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	named, current := r.named.Of(d)
	if !current {
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	wait, err := r.reconcile(ctx, d, named)
	return r.conflicts.Result(ctx, req, ctrl.Result{RequeueAfter: wait}, err)
}

// forget removes everything that drover remembers of a deleted deployment. It also removes the taints and annotations that drover
// put on the deployment's Nodes, because Machines that were orphaned on purpose still exist after the deletion of the deployment.
func (r *Reconciler) forget(ctx context.Context, deployment types.NamespacedName, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	r.plans.plans.Forget(deployment)
	r.limit.forget(deployment)
	r.debounce.seen.Forget(deployment)
	r.statuses.Forget(deployment)
	r.freezes.Forget(deployment)
	_, err = r.nodes.sync(ctx, deployment, rollout.Plan{})
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, d *v1alpha1.MachineDeployment, named []v1alpha1.Removal) (time.Duration, error) {
	if err := ownership.EnsureFinalizer(ctx, r.writes.Writer, d); err != nil {
		return 0, err
	}
	bounds, boundsCondition := r.statuses.bounds(d)
	sets, lost, err := r.sets.claim(ctx, d)
	if err != nil {
		return 0, err
	}
	snapshot := rollout.Snapshot{Deployment: d, Bounds: bounds, Named: named, Seen: r.named.Size(d), Sets: sets, Lost: lost, Now: r.clock.Now()}
	if rolled, err := r.writes.rollBack(ctx, snapshot); rolled || err != nil {
		return 0, err
	}
	plan, invalid, err := r.limit.plan(ctx, snapshot)
	if err != nil {
		return 0, err
	}
	var input []metav1.Condition // the conditions about annotations of the deployment and about its stored template
	for _, c := range []*metav1.Condition{boundsCondition, r.statuses.warnings(d, plan.Warning)} {
		if c != nil {
			input = append(input, *c)
		}
	}
	if invalid != nil {
		return 0, r.statuses.refuse(ctx, d, invalid, input)
	}
	if !plan.RestoreReplicas {
		if wait, err := r.debounce.wait(ctx, d, plan); wait > 0 || err != nil {
			return wait, err
		}
	}
	r.record(ctx, snapshot, plan)
	if plan.RestoreReplicas {
		return 0, r.writes.restoreReplicas(ctx, d, plan)
	}
	wait, err := r.act(ctx, d, plan, input)
	return wait, errors.Join(err, r.showFreeze(ctx, d, sets, plan))
}

// showFreeze shows whether a set of the deployment is frozen. When an annotation of the deployment asks to lift the freeze, it first passes the
// annotation on to the frozen sets.
func (r *Reconciler) showFreeze(ctx context.Context, d *v1alpha1.MachineDeployment, sets []rollout.SetState, plan rollout.Plan) error {
	for _, s := range sets {
		frozen := rollout.WhyFrozen(s.Set.Status.Conditions) != "" || s.Set.Labels[v1alpha1.LabelFreeze] == v1alpha1.Frozen
		if len(ownership.Unfreezes(d)) == 0 || !frozen {
			continue
		}
		metadata := map[string]any{"uid": s.Set.UID, "annotations": map[string]any{v1alpha1.AnnotationUnfreeze: ""}}
		if err := r.writes.Merge(ctx, s.Set.DeepCopy(), map[string]any{"metadata": metadata}); err != nil {
			return fmt.Errorf("passing on the annotation that lifts a freeze to MachineSet %s: %w", s.Set.Name, err)
		}
	}
	return r.freezes.Show(ctx, d, rollout.WhyFrozen(plan.Status.Conditions))
}

// act carries out a plan. First it sets back the template of a set that another client has changed. Sizes and removals do not wait for that when
// it is refused, for example by an admission webhook.
func (r *Reconciler) act(ctx context.Context, d *v1alpha1.MachineDeployment, plan rollout.Plan, input []metav1.Condition) (time.Duration, error) {
	var notRestored error
	if plan.Restore != nil {
		notRestored = r.writes.restoreTemplate(ctx, d, plan.Restore)
		if notRestored == nil || apierrors.IsConflict(notRestored) {
			return 0, notRestored
		}
	}
	r.named.Keep(d, plan.Removals)
	r.statuses.reportDegraded(d, plan.Status)
	plan.Status.Conditions = append(plan.Status.Conditions, input...)
	if plan.Limited {
		plan.RequeueAfter = limitRetry
	}
	wait, err := r.follow(ctx, d, plan)
	return wait, errors.Join(notRestored, err)
}

// record stores a plan and logs its steps, unless the last plan had the same steps. drover also carries out a plan that cannot be
// stored.
func (r *Reconciler) record(ctx context.Context, s rollout.Snapshot, p rollout.Plan) {
	log := ctrl.LoggerFrom(ctx)
	news, err := r.plans.record(s, p)
	if err != nil {
		log.Error(err, "Failed to record a plan")
	}
	if !news {
		return
	}
	for _, step := range p.Steps {
		log.Info("Rollout step", "step", step.String())
	}
}

// follow carries out a plan. First it taints and annotates the Nodes whose Machines the rollout replaces, so that pods do not move from one
// of these Nodes to another one that is replaced later.
func (r *Reconciler) follow(ctx context.Context, d *v1alpha1.MachineDeployment, plan rollout.Plan) (time.Duration, error) {
	more, marked := r.nodes.sync(ctx, client.ObjectKeyFromObject(d), plan)
	if more {
		plan.RequeueAfter = gather
	}
	collided, err := r.writes.carryOut(ctx, d, plan)
	if collided {
		plan.Status.CollisionCount = next(d.Status.CollisionCount)
		plan.RequeueAfter = gather
	}
	err = errors.Join(marked, err)
	if err == nil && !collided && len(plan.Changes) > 0 && d.Status.ObservedGeneration == d.Generation {
		// The counts in the status are about to change. The status is written once, after the sets have carried out the plan.
		return gather, nil
	}
	left, shown := r.statuses.writeWhenDue(ctx, d, plan.Status)
	return rollout.Soonest(plan.RequeueAfter, left), errors.Join(err, shown)
}

// next returns a collision count raised by one. After the largest value it starts again at 1.
func next(count *int32) *int32 {
	if count == nil || *count < 0 || *count == math.MaxInt32 {
		return new(int32(1))
	}
	return new(*count + 1)
}
