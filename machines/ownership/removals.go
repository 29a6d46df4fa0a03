package ownership

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Removals remembers the removals that objects have named in any version that a watch has brought. A client that does not know
// the list and writes the whole object drops it; what was dropped before anything was done about it is found here. The zero
// value is ready for use.
type Removals struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]seenRemovals
}

// seenRemovals are those of one object.
type seenRemovals struct {
	uid     types.UID
	version string
	all     []v1alpha1.Removal
}

// see records a version of an object with its list. The handler of a watch calls it for every version, in order.
func (r *Removals) see(o client.Object, list []v1alpha1.Removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	seen := r.seen[key]
	if seen.uid != o.GetUID() {
		seen = seenRemovals{uid: o.GetUID()}
	}
	seen.version = o.GetResourceVersion()
	seen.all = v1alpha1.MergeRemovals(list, seen.all)
	if r.seen == nil {
		r.seen = map[types.NamespacedName]seenRemovals{}
	}
	r.seen[key] = seen
}

// Of returns what an object has named, also in earlier versions. current is false when the watch has brought another version
// than this one: then a version in between may not have been taken in yet, and the object must be looked at again.
func (r *Removals) Of(o client.Object) (all []v1alpha1.Removal, current bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.seen[client.ObjectKeyFromObject(o)]
	if !ok || seen.uid != o.GetUID() {
		return nil, true
	}
	return seen.all, seen.version == o.GetResourceVersion()
}

// Keep forgets what an object has named, but for a list: the other entries are over. It does nothing when the watch has
// brought another version than this one.
func (r *Removals) Keep(o client.Object, list []v1alpha1.Removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	if seen, ok := r.seen[key]; ok && seen.uid == o.GetUID() && seen.version == o.GetResourceVersion() {
		seen.all = slices.Clone(list)
		r.seen[key] = seen
	}
}

// forget drops everything about the object of that name.
func (r *Removals) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}

// Remembering returns a handler that takes every version of an object into r before next handles it. list returns the
// removals that a version names.
func Remembering[T client.Object](r *Removals, list func(T) []v1alpha1.Removal, next handler.TypedEventHandler[T, ctrl.Request]) handler.TypedEventHandler[T, ctrl.Request] {
	return remembering[T]{TypedEventHandler: next, removals: r, list: list}
}

type remembering[T client.Object] struct {
	handler.TypedEventHandler[T, ctrl.Request]
	removals *Removals
	list     func(T) []v1alpha1.Removal
}

// Create handles an object that the watch shows first.
func (h remembering[T]) Create(ctx context.Context, e event.TypedCreateEvent[T], q Queue) {
	h.removals.see(e.Object, h.list(e.Object))
	h.TypedEventHandler.Create(ctx, e, q)
}

// Update handles a new version of an object.
func (h remembering[T]) Update(ctx context.Context, e event.TypedUpdateEvent[T], q Queue) {
	h.removals.see(e.ObjectNew, h.list(e.ObjectNew))
	h.TypedEventHandler.Update(ctx, e, q)
}

// Delete handles an object that is gone.
func (h remembering[T]) Delete(ctx context.Context, e event.TypedDeleteEvent[T], q Queue) {
	h.removals.forget(client.ObjectKeyFromObject(e.Object))
	h.TypedEventHandler.Delete(ctx, e, q)
}
