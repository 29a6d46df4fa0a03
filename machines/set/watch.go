package set

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// machineEvents wakes the set of a Machine that came, changed or went. Events are gathered: the queue keeps the first
// time that a set was asked for.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, ctrl.Request] {
	return handler.TypedFuncs[*v1alpha1.Machine, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.Machine], q queue) {
			r.wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], q queue) {
			before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
			if isController(before) && (after == nil || after.UID != before.UID) {
				q.AddAfter(requestFor(e.ObjectOld.Namespace, before.Name), gather)
			}
			r.wake(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.Machine], q queue) {
			if ref := metav1.GetControllerOfNoCopy(e.Object); isController(ref) {
				r.pending.gone(types.NamespacedName{Namespace: e.Object.Namespace, Name: ref.Name}, e.Object)
			}
			r.wake(ctx, e.Object, q)
		},
	}
}

// wake asks for the set of a Machine; for an orphan, for every set that might adopt it.
func (r *Reconciler) wake(ctx context.Context, m *v1alpha1.Machine, q queue) {
	if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
		if isController(ref) {
			q.AddAfter(requestFor(m.Namespace, ref.Name), gather)
		}
		return
	}
	var sets v1alpha1.MachineSetList
	if err := r.client.List(ctx, &sets, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing sets for an orphan", "machine", m.Name)
		return
	}
	for i := range sets.Items {
		selector, err := metav1.LabelSelectorAsSelector(&sets.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(m.Labels)) {
			q.AddAfter(requestFor(m.Namespace, sets.Items[i].Name), gather)
		}
	}
}

func requestFor(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
