package freeze

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// queue holds the groups to reconcile. When a group is added several times, the earliest of the requested times applies.
type queue = workqueue.TypedRateLimitingInterface[key]

// ownerEvents returns the handler for deployments or sets. When a size or surge was lowered, it records the former bound (see
// Group.bound). It requeues the group when an object is created or deleted, or when the object's freeze state changes. A change
// of the spec requeues the group only while the group is frozen, because a larger size may end the freeze.
func ownerEvents[T client.Object](r *Reconciler, keyOf func(T) key) handler.TypedEventHandler[T, key] {
	note := func(k key, bound int) {
		if bound > 0 {
			r.sizes.note(k, bound, r.options.Clock.Now())
		}
	}
	return handler.TypedFuncs[T, key]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) {
			k := keyOf(e.Object)
			note(k, first(e.Object))
			q.AddAfter(k, gather)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) {
			k := keyOf(e.ObjectNew)
			note(k, lowered(e.ObjectOld, e.ObjectNew))
			moved := keyOf(e.ObjectOld) != k
			changed := e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() && r.frozen.has(k)
			if moved || changed || stateOf(e.ObjectOld) != stateOf(e.ObjectNew) {
				q.AddAfter(k, gather)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { q.AddAfter(keyOf(e.Object), gather) },
	}
}

// state is the part of a deployment or set, other than its size, that affects a freeze.
type state struct {
	label, condition            string
	asked, paused, beingDeleted bool
}

func stateOf(o client.Object) state {
	m := state{
		label: o.GetLabels()[v1alpha1.LabelFreeze], asked: len(requests(o)) > 0,
		paused: v1alpha1.Paused(o.GetAnnotations()), beingDeleted: !o.GetDeletionTimestamp().IsZero(),
	}
	if c := conditionOf(o); c != nil {
		m.condition = string(c.Status)
	}
	return m
}

// machineEvents requeues the group of a Machine when the Machine is created. When a Machine is deleted, it requeues the group
// only while the group is frozen.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, key] {
	fewer := func(ctx context.Context, m *v1alpha1.Machine, q queue) {
		if k, ok := r.groupOf(ctx, m); ok && r.frozen.has(k) {
			q.AddAfter(k, gather)
		}
	}
	return handler.TypedFuncs[*v1alpha1.Machine, key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.Machine], q queue) {
			if k, ok := r.groupOf(ctx, e.Object); ok {
				q.AddAfter(k, gather)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], q queue) {
			if e.ObjectOld.DeletionTimestamp.IsZero() && !e.ObjectNew.DeletionTimestamp.IsZero() {
				fewer(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.Machine], q queue) {
			fewer(ctx, e.Object, q)
		},
	}
}

// groupOf returns the group of a Machine. ok is false for a Machine without a set, and for a Machine whose set the cache does
// not show yet; in the latter case the event of the set requeues the group.
func (r *Reconciler) groupOf(ctx context.Context, m *v1alpha1.Machine) (k key, ok bool) {
	ref := metav1.GetControllerOfNoCopy(m)
	if ref == nil || ref.Kind != v1alpha1.MachineSetKind.Kind {
		return key{}, false
	}
	set := &v1alpha1.MachineSet{}
	if err := r.reading.cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, set, client.UnsafeDisableDeepCopy); err != nil {
		return key{}, false
	}
	return keyOfSet(set), true
}
