package ownership

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// Candidate is an owner that might adopt an object without a controller.
type Candidate struct {
	Name     string
	Selector *metav1.LabelSelector
}

// Candidates returns a function that lists the owners of a namespace, for the field [Events.Candidates]. list is an empty list of the
// owners' kind; selector returns the selector of an owner.
func Candidates[T client.Object](reader client.Reader, list client.ObjectList, selector func(T) *metav1.LabelSelector) func(ctx context.Context, namespace string) ([]Candidate, error) {
	return func(ctx context.Context, namespace string) ([]Candidate, error) {
		owners := list.DeepCopyObject().(client.ObjectList)
		if err := reader.List(ctx, owners, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		var all []Candidate
		err := meta.EachListItem(owners, func(o runtime.Object) error {
			owner, ok := o.(T)
			if !ok {
				return fmt.Errorf("%T holds a %T", owners, o)
			}
			all = append(all, Candidate{Name: owner.GetName(), Selector: selector(owner)})
			return nil
		})
		return all, err
	}
}

// Events enqueues the owner of an object that was created, changed or deleted.
type Events[T client.Object] struct {
	// Kind is the kind of the owners. An object whose controller has another kind enqueues no owner.
	Kind string
	// Gather is the time between the first event of an owner and its reconcile. Further events in this time do not delay the
	// reconcile.
	Gather time.Duration
	// Candidates lists the owners of a namespace. For an object without a controller, the owners whose selector matches the object are
	// enqueued.
	Candidates func(ctx context.Context, namespace string) ([]Candidate, error)
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
	candidates, err := e.Candidates(ctx, object.GetNamespace())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the owners that might adopt an object failed", "kind", e.Kind, "orphan", object.GetName())
		return
	}
	for _, c := range candidates {
		selector, err := metav1.LabelSelectorAsSelector(c.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(object.GetLabels())) {
			q.AddAfter(RequestFor(object.GetNamespace(), c.Name), e.Gather)
		}
	}
}

// RequestFor returns the reconcile request of an owner.
func RequestFor(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
