package health

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// pass is the only request: every pass looks at all Machines.
var pass = ctrl.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager makes the manager run the controller: after changes that a verdict depends on, gathered for a second.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	control, target := r.options.Control.GetCache(), r.options.Target.GetCache()
	return ctrl.NewControllerManagedBy(mgr).
		Named("health").
		WatchesRawSource(source.Kind(target, &corev1.Node{}, wakes(r.nodeMatters))).
		WatchesRawSource(source.Kind(control, &v1alpha1.Machine{}, wakes(machineMatters))).
		WatchesRawSource(source.Kind(control, &v1alpha1.MachineSet{}, wakes(setMatters))).
		WatchesRawSource(source.Kind(control, &v1alpha1.MachineDeployment{}, wakes(deploymentMatters))).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: ownership.Retries()}).
		Complete(r)
}

// wakes has a pass made after an object was added or deleted, or an update that matters.
func wakes[T client.Object](matters func(before, after T) bool) handler.TypedEventHandler[T, ctrl.Request] {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[T], q queue) { q.AddAfter(pass, pace) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { q.AddAfter(pass, pace) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			if matters(e.ObjectOld, e.ObjectNew) {
				q.AddAfter(pass, pace)
			}
		},
	}
}

// nodeMatters reports whether a Node is another one, or has another zone, host, owner, or state of a condition that counts. Kubelets
// write their heartbeats into conditions too.
func (r *Reconciler) nodeMatters(before, after *corev1.Node) bool {
	if before.UID != after.UID {
		return true
	}
	for _, label := range []string{corev1.LabelTopologyZone, v1alpha1.LabelPhysicalHost, v1alpha1.LabelOwnedBy} {
		if before.Labels[label] != after.Labels[label] {
			return true
		}
	}
	return !slices.Equal(r.states(before), r.states(after))
}

// state is what of a Node's condition counts.
type state struct {
	kind   corev1.NodeConditionType
	status corev1.ConditionStatus
	at     int64
}

func (r *Reconciler) states(n *corev1.Node) (out []state) {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type == corev1.NodeReady || slices.Contains(r.options.Settings.Conditions, c.Type) {
			out = append(out, state{c.Type, c.Status, c.LastTransitionTime.Unix()})
		}
	}
	return out
}

// machineMatters reports whether a Machine has begun to leave, has another Node, owner or annotation, or shows another state of its
// server, its Node or its own health.
func machineMatters(before, after *v1alpha1.Machine) bool {
	marks := func(m *v1alpha1.Machine) bool { return m.Status.NodeMarks != nil && m.Status.NodeMarks.Started }
	return before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || marks(before) != marks(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		before.Labels[v1alpha1.LabelController] != after.Labels[v1alpha1.LabelController] ||
		!equality.Semantic.DeepEqual(before.Status.NodeRef, after.Status.NodeRef) || !equality.Semantic.DeepEqual(before.Status.Phase, after.Status.Phase) ||
		!slices.Equal(reasons(before), reasons(after))
}

// reasons returns the state of the conditions that a verdict depends on.
func reasons(m *v1alpha1.Machine) (out []string) {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		switch c.Type {
		case v1alpha1.ConditionReady, v1alpha1.ConditionServerReady, v1alpha1.ConditionHealthy:
			out = append(out, c.Type, string(c.Status), c.Reason)
		}
	}
	return out
}

// setMatters reports whether the spec, annotations or record of a set have changed, or it is being deleted.
func setMatters(before, after *v1alpha1.MachineSet) bool {
	return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !equality.Semantic.DeepEqual(stored(before), stored(after))
}

// deploymentMatters reports the same of a deployment.
func deploymentMatters(before, after *v1alpha1.MachineDeployment) bool {
	return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !equality.Semantic.DeepEqual(stored(before), stored(after))
}
