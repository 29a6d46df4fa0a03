package capacity

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

const (
	// FieldManager owns status.nodeTemplate and the condition TemplateResolved.
	FieldManager = "drover-capacity"
	// resolveAgain is how often a template that was resolved is looked at again: a flavor or image may have changed.
	resolveAgain = 10 * time.Minute
	// askAgain is when a cloud that could not be asked is asked again.
	askAgain = 30 * time.Second
	// reasonResolved is the condition's reason when all is well.
	reasonResolved = "Resolved"
)

// Options are what a Reconciler is made of.
type Options struct {
	// Control is where MachineDeployments live.
	Control cluster.Cluster
	Cloud   cloud.Cloud
	// Clock is the time. Default: the real one.
	Clock clock.PassiveClock
	// StartupTaint is the key of the taint that a node loses before it takes pods. Default: v1alpha1.DefaultStartupTaint.
	StartupTaint string
}

// Reconciler writes the node template of each MachineDeployment.
type Reconciler struct {
	control  cluster.Cluster
	client   client.Client
	cloud    cloud.Cloud
	clock    clock.PassiveClock
	recorder events.EventRecorder
	taint    string
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	r := newReconciler(o, o.Control.GetClient(), o.Control.GetEventRecorder("drover-capacity"))
	r.control = o.Control
	return r
}

func newReconciler(o Options, c client.Client, recorder events.EventRecorder) *Reconciler {
	r := &Reconciler{client: c, cloud: o.Cloud, clock: o.Clock, recorder: recorder, taint: o.StartupTaint}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.taint == "" {
		r.taint = v1alpha1.DefaultStartupTaint
	}
	return r
}

// SetupWithManager lets the manager run the controller.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	changed := predicate.Or[*v1alpha1.MachineDeployment](
		predicate.TypedGenerationChangedPredicate[*v1alpha1.MachineDeployment]{},
		predicate.TypedAnnotationChangedPredicate[*v1alpha1.MachineDeployment]{},
	)
	return ctrl.NewControllerManagedBy(mgr).
		Named("capacity").
		WatchesRawSource(source.Kind(r.control.GetCache(), &v1alpha1.MachineDeployment{},
			&handler.TypedEnqueueRequestForObject[*v1alpha1.MachineDeployment]{}, changed)).
		Complete(r)
}

// Reconcile resolves the template of one deployment and writes what has changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &v1alpha1.MachineDeployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !d.DeletionTimestamp.IsZero() || d.Annotations[v1alpha1.AnnotationPaused] != "" || d.Annotations[v1alpha1.AnnotationPausedCAPI] != "" {
		return ctrl.Result{}, nil
	}
	shape, err := r.cloud.Shape(ctx, d.Namespace, &d.Spec.Template)
	var template *v1alpha1.NodeTemplate
	if err == nil {
		template, err = Template(d, shape, r.taint)
	}
	verdict := judge(d, template, fault.Of(err))
	if err := r.write(ctx, d, verdict); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: verdict.again}, nil
}

// verdict is what status says afterwards.
type verdict struct {
	template  *v1alpha1.NodeTemplate
	condition metav1.Condition
	again     time.Duration
}

// judge decides what is written. What the cloud does not know has no template, since wrong numbers make the autoscaler
// order nodes for ever (CA-C98); when the cloud merely cannot be asked, the last answer stays.
func judge(d *v1alpha1.MachineDeployment, template *v1alpha1.NodeTemplate, failure *fault.Error) verdict {
	v := verdict{
		template: template,
		condition: metav1.Condition{
			Type: v1alpha1.ConditionTemplateResolved, Status: metav1.ConditionTrue, Reason: reasonResolved,
			Message: "the cloud knows what the template names", ObservedGeneration: d.Generation,
		},
		again: resolveAgain,
	}
	if failure == nil {
		return v
	}
	v.condition.Status, v.condition.Reason, v.condition.Message = metav1.ConditionFalse, string(failure.Code), failure.Message
	v.template = nil
	v.again = max(askAgain, failure.RetryAfter)
	if failure.Class == fault.Invalid || failure.Class == fault.NotFound {
		v.again = fault.PolicyOf(failure.Class).MaxRetry
		return v
	}
	v.template = d.Status.NodeTemplate
	return v
}

// write applies the verdict, when it says anything new, and tells people of a failure once.
func (r *Reconciler) write(ctx context.Context, d *v1alpha1.MachineDeployment, v verdict) error {
	known := apimeta.FindStatusCondition(d.Status.Conditions, v.condition.Type)
	same := known != nil && known.Status == v.condition.Status && known.Reason == v.condition.Reason && known.Message == v.condition.Message
	if same && apiequality.Semantic.DeepEqual(d.Status.NodeTemplate, v.template) {
		return nil
	}
	v.condition.LastTransitionTime = metav1.NewTime(r.clock.Now())
	if known != nil && known.Status == v.condition.Status {
		v.condition.LastTransitionTime = known.LastTransitionTime
	}
	if err := r.apply(ctx, d, v); err != nil {
		return fmt.Errorf("writing the node template: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("node template", "status", v.condition.Status, "reason", v.condition.Reason, "message", v.condition.Message)
	if v.condition.Status != metav1.ConditionTrue && !same {
		r.recorder.Eventf(d, nil, corev1.EventTypeWarning, v.condition.Reason, "ResolveTemplate", "%s", v.condition.Message)
	}
	return nil
}

// apply writes the two fields that are this controller's, by server-side apply: the other conditions have other owners.
func (r *Reconciler) apply(ctx context.Context, d *v1alpha1.MachineDeployment, v verdict) error {
	owned := struct {
		NodeTemplate *v1alpha1.NodeTemplate `json:"nodeTemplate,omitempty"`
		Conditions   []metav1.Condition     `json:"conditions"`
	}{v.template, []metav1.Condition{v.condition}}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&owned)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(v1alpha1.MachineDeploymentKind)
	u.SetNamespace(d.Namespace)
	u.SetName(d.Name)
	u.SetUID(d.UID)
	return r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
}
