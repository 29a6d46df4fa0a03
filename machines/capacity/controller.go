package capacity

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

const (
	// FieldManager is the field manager of status.nodeTemplate and the condition TemplateResolved.
	FieldManager = "drover-capacity"
	// resolveAgain is the interval at which a resolved template is resolved again, because a flavor or image may have changed.
	resolveAgain = 10 * time.Minute
	// askAgain is the interval at which drover retries a cloud that it could not reach.
	askAgain = 30 * time.Second
	// reasonResolved is the condition's reason when the template is resolved.
	reasonResolved = "Resolved"
	// reasonImplausible is the reason of the Event about values that a template does not contain, because they cannot be read or the flavor
	// does not allow them.
	reasonImplausible = "ImplausibleCapacity"
	// mostRefuted is how many such values the condition and the Event name.
	mostRefuted = 3
)

// Options configure a Reconciler.
type Options struct {
	// Control is the cluster with the MachineDeployments. Target is the cluster with their Nodes.
	Control, Target cluster.Cluster
	Cloud           cloud.Cloud
	// Clock returns the time. Default: the real clock.
	Clock clock.PassiveClock
	// Rules apply to all templates. Default of StartupTaint: v1alpha1.DefaultStartupTaint; of GPUResource: DefaultGPUResource.
	Rules
	// BareSets reports whether MachineSets without a MachineDeployment have templates too.
	BareSets bool
}

// Reconciler writes the node template of each MachineDeployment. With BareSets it also writes the node templates of MachineSets without
// a deployment.
type Reconciler struct {
	Options
	client client.Client
	// nodes reads Nodes.
	nodes    client.Reader
	recorder events.EventRecorder
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	r := newReconciler(o, o.Control.GetClient(), o.Control.GetEventRecorder("drover-capacity"))
	r.nodes = o.Target.GetClient()
	return r
}

func newReconciler(o Options, c client.Client, recorder events.EventRecorder) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.StartupTaint = cmp.Or(o.StartupTaint, v1alpha1.DefaultStartupTaint)
	o.GPUResource = cmp.Or(o.GPUResource, DefaultGPUResource)
	return &Reconciler{Options: o, client: c, nodes: c, recorder: recorder}
}

// Reconcile resolves the template of one deployment and writes what has changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &v1alpha1.MachineDeployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return r.resolve(ctx, ofDeployment(d))
}

// reconcileSet resolves the template of a set without a deployment, and writes what has changed.
func (r *Reconciler) reconcileSet(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &v1alpha1.MachineSet{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if metav1.GetControllerOfNoCopy(s) != nil {
		return ctrl.Result{}, nil
	}
	return r.resolve(ctx, ofSet(s))
}

func (r *Reconciler) resolve(ctx context.Context, s *subject) (ctrl.Result, error) {
	if !s.GetDeletionTimestamp().IsZero() || v1alpha1.Paused(s.GetAnnotations()) {
		return ctrl.Result{}, nil
	}
	template, failure := r.template(ctx, s)
	verdict := judge(s, template, failure)
	if err := r.write(ctx, s, verdict); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: verdict.again}, nil
}

// template computes the template from the cloud, the class and the existing nodes.
func (r *Reconciler) template(ctx context.Context, s *subject) (resolved, *fault.Error) {
	shape, err := r.Cloud.Shape(ctx, s.GetNamespace(), s.template)
	if err != nil {
		return resolved{}, fault.Of(err)
	}
	class, err := r.classTemplate(ctx, s)
	if err != nil {
		return resolved{}, fault.Of(err)
	}
	t, err := r.Rules.template(s, shape, class)
	if err != nil {
		return resolved{}, fault.Of(err)
	}
	if err := r.learn(ctx, s, &t); err != nil {
		return resolved{}, fault.Of(err)
	}
	return t, nil
}

// verdict holds what to write into the status.
type verdict struct {
	template  *v1alpha1.NodeTemplate
	condition metav1.Condition
	// warning is the reason of the Event that is recorded when the condition changes; empty for none.
	warning string
	again   time.Duration
}

// judge decides what to write. When the cloud does not have what the spec names, there is no template, because wrong numbers make the
// autoscaler request nodes endlessly (CA-C98). When drover cannot reach the cloud, the last template stays, unless it was computed for
// another Machine template (CA-C103).
func judge(s *subject, t resolved, failure *fault.Error) verdict {
	v := verdict{
		template: t.NodeTemplate,
		condition: metav1.Condition{
			Type: v1alpha1.ConditionTemplateResolved, Status: metav1.ConditionTrue, Reason: reasonResolved,
			Message: "the cloud has everything that the template names", ObservedGeneration: s.GetGeneration(),
		},
		again: resolveAgain,
	}
	if failure == nil {
		if len(t.refuted) > 0 {
			v.warning = reasonImplausible
			v.condition.Message += "; the node template leaves out these values: " + listed(t.refuted)
		}
		if t.Labels[corev1.LabelTopologyZone] == "" {
			v.condition.Message += "; the node template has no zone, so the autoscaler does not add nodes for pods that need one: the spec names no " +
				"availabilityZone, and neither the cloud nor the group's nodes have exactly one zone"
		}
		if len(t.unlike) > 0 {
			v.condition.Message += "; the autoscaler may not find other groups similar to this one: " + listed(t.unlike)
		}
		return v
	}
	v.condition.Status, v.condition.Reason, v.condition.Message = metav1.ConditionFalse, string(failure.Code), failure.Message
	v.template, v.warning = nil, v.condition.Reason
	v.again = max(askAgain, failure.RetryAfter)
	if failure.Class == fault.Invalid || failure.Class == fault.NotFound {
		if !fault.Unmatched(failure.Code) {
			v.again = fault.PolicyOf(failure.Class).MaxRetry
		}
		return v
	}
	if hash, err := hashOf(s.template); err == nil && s.known != nil && s.known.ResolvedFor == hash {
		v.template = s.known
	}
	return v
}

// listed returns the first texts, and the number of the others.
func listed(texts []string) string {
	shown := strings.Join(texts[:min(len(texts), mostRefuted)], "; ")
	if more := len(texts) - mostRefuted; more > 0 {
		return fmt.Sprintf("%s; and %d more", shown, more)
	}
	return shown
}

// write writes the verdict when it differs from the status, and reports a failure or an implausible value by a
// single Event.
func (r *Reconciler) write(ctx context.Context, s *subject, v verdict) error {
	known := apimeta.FindStatusCondition(s.conditions, v.condition.Type)
	same := known != nil && known.Status == v.condition.Status && known.Reason == v.condition.Reason && known.Message == v.condition.Message
	if same && apiequality.Semantic.DeepEqual(s.known, v.template) {
		return nil
	}
	v.condition.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	if known != nil && known.Status == v.condition.Status {
		v.condition.LastTransitionTime = known.LastTransitionTime
	}
	if err := r.apply(ctx, s, v); err != nil {
		return fmt.Errorf("writing the node template: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Wrote a node template", "status", v.condition.Status, "reason", v.condition.Reason, "message", v.condition.Message)
	if v.warning != "" && !same {
		r.recorder.Eventf(s.Object, nil, corev1.EventTypeWarning, v.warning, "ResolveTemplate", "%s", v.condition.Message)
	}
	return nil
}

// apply writes the two fields of this controller by server-side apply, because the other conditions have other owners.
func (r *Reconciler) apply(ctx context.Context, s *subject, v verdict) error {
	owned := struct {
		NodeTemplate *v1alpha1.NodeTemplate `json:"nodeTemplate,omitempty"`
		Conditions   []metav1.Condition     `json:"conditions"`
	}{v.template, []metav1.Condition{v.condition}}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&owned)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(s.kind)
	u.SetNamespace(s.GetNamespace())
	u.SetName(s.GetName())
	u.SetUID(s.GetUID())
	return r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
}
