package deployment

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

// setEvents wakes the deployment of a set; for an orphan, every deployment that might adopt it.
func (r *Reconciler) setEvents() handler.TypedEventHandler[*v1alpha1.MachineSet, ctrl.Request] {
	return handler.TypedFuncs[*v1alpha1.MachineSet, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.MachineSet], q queue) {
			r.wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.MachineSet], q queue) {
			before, after := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
			if before != nil && (after == nil || after.UID != before.UID) {
				r.wake(ctx, e.ObjectOld, q)
			}
			r.wake(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.MachineSet], q queue) {
			r.wake(ctx, e.Object, q)
		},
	}
}

// machineEvents wakes the deployment of a Machine's set.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, ctrl.Request] {
	wake := func(ctx context.Context, m *v1alpha1.Machine, q queue) {
		ref := metav1.GetControllerOfNoCopy(m)
		if ref == nil || ref.Kind != v1alpha1.MachineSetKind.Kind {
			return
		}
		var set v1alpha1.MachineSet
		err := r.client.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}, &set)
		if owner := metav1.GetControllerOfNoCopy(&set); err == nil && owner != nil {
			q.AddAfter(requestFor(m.Namespace, owner.Name), gather)
		}
	}
	return handler.TypedFuncs[*v1alpha1.Machine, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.Machine], q queue) {
			wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], q queue) {
			wake(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.Machine], q queue) {
			wake(ctx, e.Object, q)
		},
	}
}

func (r *Reconciler) wake(ctx context.Context, set *v1alpha1.MachineSet, q queue) {
	if ref := metav1.GetControllerOfNoCopy(set); ref != nil {
		if ref.Kind == v1alpha1.MachineDeploymentKind.Kind {
			q.AddAfter(requestFor(set.Namespace, ref.Name), gather)
		}
		return
	}
	var deployments v1alpha1.MachineDeploymentList
	if err := r.client.List(ctx, &deployments, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing deployments for an orphan", "set", set.Name)
		return
	}
	for i := range deployments.Items {
		selector, err := metav1.LabelSelectorAsSelector(&deployments.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(set.Labels)) {
			q.AddAfter(requestFor(set.Namespace, deployments.Items[i].Name), gather)
		}
	}
}

func requestFor(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
