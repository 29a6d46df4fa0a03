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

// pass is the only reconcile request that the controller uses, because every round covers all Machines.
var pass = ctrl.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager adds the controller to the manager. Each change that a verdict depends on starts a round, at most one per
// second.
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

// wakes returns a handler that starts a round after an object was added or deleted, and after an update for which matters
// returns true.
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

// nodeMatters reports whether a Node was replaced by another object, or its zone, owner or the state of a relevant
// condition has changed. Other updates, such as heartbeats in conditions, do not matter.
func (r *Reconciler) nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.Labels[corev1.LabelTopologyZone] != after.Labels[corev1.LabelTopologyZone] ||
		v1alpha1.NodeOwner(before.Labels, before.Annotations) != v1alpha1.NodeOwner(after.Labels, after.Annotations) ||
		!slices.Equal(r.states(before), r.states(after))
}

// state is the part of a Node's condition that verdicts depend on.
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

// machineMatters reports whether the deletion of a Machine has begun, whether its Node, owner or annotations have changed, or
// whether the state of its server, its Node or its own health has changed.
func machineMatters(before, after *v1alpha1.Machine) bool {
	marks := func(m *v1alpha1.Machine) bool { return m.Status.NodeMarks != nil && m.Status.NodeMarks.Started }
	return before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || marks(before) != marks(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		before.Labels[v1alpha1.LabelController] != after.Labels[v1alpha1.LabelController] ||
		!equality.Semantic.DeepEqual(before.Status.NodeRef, after.Status.NodeRef) || !equality.Semantic.DeepEqual(before.Status.Phase, after.Status.Phase) ||
		!slices.Equal(reasons(before), reasons(after))
}

// reasons returns the status and the reason of each condition that a verdict depends on.
func reasons(m *v1alpha1.Machine) (out []string) {
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionServerReady, v1alpha1.ConditionHealthy} {
		c := m.Condition(name)
		out = append(out, string(c.Status), c.Reason)
	}
	return out
}

// setMatters reports whether the spec, the annotations or the record of replaced Machines in a set's status have changed, or
// its deletion has begun.
func setMatters(before, after *v1alpha1.MachineSet) bool {
	return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !equality.Semantic.DeepEqual(stored(before), stored(after))
}

// deploymentMatters reports whether the spec, the annotations or the record of replaced Machines in a deployment's status have
// changed, or its deletion has begun.
func deploymentMatters(before, after *v1alpha1.MachineDeployment) bool {
	return before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !equality.Semantic.DeepEqual(stored(before), stored(after))
}
