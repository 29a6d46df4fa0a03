// Package deployment carries out the plans of package rollout: it writes the sizes of a MachineDeployment's sets, with
// their shares of the removals, and the deployment's status.
package deployment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

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

// FieldManager owns what this controller writes.
const FieldManager = "drover-deployment"

// gather is how long events of sets and Machines are collected before their deployment is looked at.
const gather = 200 * time.Millisecond

// Options are what the controller needs.
type Options struct {
	// Control is the cluster that holds the MachineDeployments, MachineSets and Machines.
	Control cluster.Cluster
	// Target is the cluster that their Nodes join. Default: Control.
	Target cluster.Cluster
	Clock  clock.PassiveClock
	// MaxReplacing caps how many Machines are in replacement at once over all deployments; 0 is no cap.
	MaxReplacing int
	// Concurrent is how many deployments are worked on at once. Default: 10.
	Concurrent int
}

// Reconciler carries out the plans of MachineDeployments.
type Reconciler struct {
	client client.Client
	live   client.Reader
	target client.Client
	events events.EventRecorder
	clock  clock.PassiveClock
	plans  *history
	brake  *brake
	// templates are those that changed a moment ago.
	templates *templates
	pace      ownership.Pace
	// named are the removals that deployments have named, rolled those of rollouts that their sets have named.
	named, rolled ownership.Removals
	options       Options
}

// New returns the controller.
func New(o Options) *Reconciler {
	if o.Concurrent <= 0 {
		o.Concurrent = 10
	}
	if o.Target == nil {
		o.Target = o.Control
	}
	return &Reconciler{
		client: o.Control.GetClient(), live: o.Control.GetAPIReader(), target: o.Target.GetClient(),
		events: o.Control.GetEventRecorder(FieldManager),
		clock:  o.Clock, plans: newHistory(), brake: newBrake(int32(min(max(o.MaxReplacing, 0), math.MaxInt32))),
		templates: newTemplates(), options: o,
	}
}

// SetupWithManager makes the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	cache := r.options.Control.GetCache()
	for _, object := range []client.Object{&v1alpha1.Machine{}, &v1alpha1.MachineSet{}} {
		if err := cache.IndexField(context.Background(), object, controllerIndex, ownership.ControllerOf); err != nil {
			return err
		}
	}
	if err := r.options.Target.GetCache().IndexField(context.Background(), &corev1.Node{}, rollingIndex, rollingDeployment); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machinedeployment").
		WatchesRawSource(source.Kind(cache, &v1alpha1.MachineDeployment{}, r.deploymentEvents())).
		WatchesRawSource(source.Kind(cache, &v1alpha1.MachineSet{}, r.setEvents())).
		WatchesRawSource(source.Kind(cache, &v1alpha1.Machine{}, r.machineEvents())).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Concurrent}).
		Complete(r)
}

// Reconcile brings one deployment a step further. What a deleting deployment owns is left to the garbage collector,
// which the finalizer makes wait for the sets (MC-31).
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &v1alpha1.MachineDeployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName, err)
	}
	if !d.DeletionTimestamp.IsZero() || v1alpha1.Paused(d.Annotations) {
		return ctrl.Result{}, nil
	}
	named, current := r.named.Of(d)
	if !current {
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	wait, err := r.reconcile(ctx, d, named)
	if apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("something changed meanwhile, looking again")
		return ctrl.Result{RequeueAfter: gather}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// forget lets go of what is remembered of a deployment that is no more, and sets its Nodes free: where its Machines were
// left behind as orphans, they still live.
func (r *Reconciler) forget(ctx context.Context, deployment types.NamespacedName, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	r.plans.forget(deployment)
	r.brake.forget(deployment)
	r.templates.forget(deployment)
	r.pace.Forget(deployment)
	_, err = r.markNodes(ctx, deployment, rollout.Plan{})
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, d *v1alpha1.MachineDeployment, named []v1alpha1.Removal) (time.Duration, error) {
	if err := r.writer().EnsureFinalizer(ctx, d); err != nil {
		return 0, err
	}
	bounds, boundsCondition := r.bounds(d)
	var input []metav1.Condition // what is said about the deployment's own fields
	for _, c := range []*metav1.Condition{boundsCondition, r.warnings(d)} {
		if c != nil {
			input = append(input, *c)
		}
	}
	sets, err := r.claim(ctx, d)
	if err != nil {
		return 0, err
	}
	snapshot := rollout.Snapshot{Deployment: d, Bounds: bounds, Named: named, Sets: sets, Now: r.clock.Now()}
	if rolled, err := r.rollBack(ctx, snapshot); rolled || err != nil {
		return 0, err
	}
	plan, invalid, err := r.plan(ctx, snapshot)
	if err != nil {
		return 0, err
	}
	if invalid != nil {
		return 0, r.refuse(ctx, d, invalid, input)
	}
	if !plan.RestoreReplicas {
		if wait, err := r.settle(ctx, d, plan); wait > 0 || err != nil {
			return wait, err
		}
	}
	r.keep(ctx, snapshot, plan)
	if plan.RestoreReplicas {
		return 0, r.restoreReplicas(ctx, d, plan)
	}
	r.named.Keep(d, plan.Removals)
	plan.Status.Conditions = append(plan.Status.Conditions, input...)
	if plan.Held {
		plan.RequeueAfter = heldAgain
	}
	return r.follow(ctx, d, plan)
}

// keep records a plan and logs its steps, unless it only repeats what the last one said. A plan is followed although it
// could not be recorded.
func (r *Reconciler) keep(ctx context.Context, s rollout.Snapshot, p rollout.Plan) {
	log := ctrl.LoggerFrom(ctx)
	news, err := r.plans.keep(client.ObjectKeyFromObject(s.Deployment), s, p)
	if err != nil {
		log.Error(err, "recording a plan")
	}
	if !news {
		return
	}
	for _, step := range p.Steps {
		log.Info("rollout", "step", step.String())
	}
}

// follow marks the Nodes that a plan rolls before it carries the plan out, so that no pod goes from one to the next.
func (r *Reconciler) follow(ctx context.Context, d *v1alpha1.MachineDeployment, plan rollout.Plan) (time.Duration, error) {
	more, marked := r.markNodes(ctx, client.ObjectKeyFromObject(d), plan)
	if more {
		plan.RequeueAfter = gather
	}
	collided, err := r.carryOut(ctx, d, plan)
	if collided {
		plan.Status.CollisionCount = next(d.Status.CollisionCount)
		plan.RequeueAfter = gather
	}
	err = errors.Join(marked, err)
	if err == nil && !collided && len(plan.Changes) > 0 && d.Status.ObservedGeneration == d.Generation {
		// A step of a roll: the numbers are about to change, and are written once, when the sets have followed.
		return gather, nil
	}
	left, shown := r.showStatus(ctx, d, plan.Status)
	if left > 0 && (plan.RequeueAfter <= 0 || left < plan.RequeueAfter) {
		plan.RequeueAfter = left
	}
	return plan.RequeueAfter, errors.Join(err, shown)
}

// refuse tells people what in the spec cannot be followed, beside the conditions about other input; nothing else is written.
func (r *Reconciler) refuse(ctx context.Context, d *v1alpha1.MachineDeployment, invalid error, input []metav1.Condition) error {
	st := withoutOthers(*d.Status.DeepCopy())
	st.ObservedGeneration = d.Generation
	progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: rollout.ReasonOf(invalid),
		Message: invalid.Error(), ObservedGeneration: d.Generation}
	if r.transition(d, &progressing) {
		r.events.Eventf(d, nil, "Warning", progressing.Reason, "Reconcile", "%s", invalid.Error())
	}
	st.Conditions = []metav1.Condition{progressing}
	for _, c := range d.Status.Conditions {
		if c.Type == v1alpha1.ConditionAvailable {
			st.Conditions = append(st.Conditions, c)
		}
	}
	st.Conditions = append(st.Conditions, input...)
	return r.writeStatus(ctx, d, st)
}

// next returns a collision count raised by one. It starts again at 1 after the largest.
func next(count *int32) *int32 {
	if count == nil || *count < 0 || *count == math.MaxInt32 {
		return new(int32(1))
	}
	return new(*count + 1)
}

// restoreReplicas puts back a size that a writer dropped. The watch brings the deployment back with it.
func (r *Reconciler) restoreReplicas(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) error {
	err := r.writer().Patch(ctx, d, map[string]any{
		"metadata": map[string]any{"uid": d.UID, "resourceVersion": d.ResourceVersion},
		"spec":     map[string]any{"replicas": p.Replicas},
	})
	if err != nil {
		return fmt.Errorf("putting back spec.replicas: %w", err)
	}
	return nil
}
