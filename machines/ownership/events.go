package ownership

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Queue is the work queue of owners.
type Queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Events enqueues the owner of an object that was created, changed or deleted.
type Events[T client.Object] struct {
	// Kind is the kind of the owners. An object whose controller has another kind enqueues no owner.
	Kind string
	// Gather is the time between the first event of an owner and its reconcile. Further events in this time do not delay the
	// reconcile.
	Gather time.Duration
	// Reader lists the owners into a copy of Owners, an empty list of their kind. MadeFor reports whether the object was made for the owner,
	// according to both names: only such an owner might adopt an object without a controller.
	Reader  client.Reader
	Owners  client.ObjectList
	MadeFor func(owner, object string) bool
	// Gone, unless nil, is called with each object that was deleted, and its owner.
	Gone func(owner types.NamespacedName, object T)
}

// Handler returns the handler for a watch. When the controller of an object changes, the former controller is enqueued too.
func (e Events[T]) Handler() handler.TypedEventHandler[T, ctrl.Request] {
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(ctx context.Context, c event.TypedCreateEvent[T], q Queue) { e.wake(ctx, c.Object, q) },
		UpdateFunc: func(ctx context.Context, u event.TypedUpdateEvent[T], q Queue) {
			before, after := metav1.GetControllerOfNoCopy(u.ObjectOld), metav1.GetControllerOfNoCopy(u.ObjectNew)
			if e.owns(before) && (after == nil || after.UID != before.UID) {
				q.AddAfter(RequestFor(u.ObjectOld.GetNamespace(), before.Name), e.Gather)
			}
			e.wake(ctx, u.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, d event.TypedDeleteEvent[T], q Queue) {
			if ref := metav1.GetControllerOfNoCopy(d.Object); e.Gone != nil && e.owns(ref) {
				e.Gone(types.NamespacedName{Namespace: d.Object.GetNamespace(), Name: ref.Name}, d.Object)
			}
			e.wake(ctx, d.Object, q)
		},
	}
}

func (e Events[T]) owns(ref *metav1.OwnerReference) bool { return ref != nil && ref.Kind == e.Kind }

// wake enqueues the owner of an object. When the object has no controller, wake enqueues every owner that might adopt the object.
func (e Events[T]) wake(ctx context.Context, object T, q Queue) {
	if ref := metav1.GetControllerOfNoCopy(object); ref != nil {
		if e.owns(ref) {
			q.AddAfter(RequestFor(object.GetNamespace(), ref.Name), e.Gather)
		}
		return
	}
	owners := e.Owners.DeepCopyObject().(client.ObjectList)
	err := e.Reader.List(ctx, owners, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the owners that might adopt an object failed", "kind", e.Kind, "orphan", object.GetName())
		return
	}
	_ = meta.EachListItem(owners, func(owner runtime.Object) error { // the only possible error is that of the function
		if o := owner.(client.Object); e.MadeFor(o.GetName(), object.GetName()) {
			q.AddAfter(RequestFor(o.GetNamespace(), o.GetName()), e.Gather)
		}
		return nil
	})
}

// RequestFor returns the reconcile request of an owner.
func RequestFor(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
