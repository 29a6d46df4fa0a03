package ownership

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/memory"
)

// Removals remembers, for each object, the removals in all versions of the object that a watch has shown, and for a MachineDeployment its
// last size. When a client that does not know the field for removals, or manages no size, writes the whole object, the object loses its
// removals and its size. Removals still has what was lost in this way. The zero value is ready for use.
type Removals struct {
	seen memory.Of[seenRemovals]
}

// seenRemovals holds the removals of one object, and the last spec.replicas of a MachineDeployment.
type seenRemovals struct {
	uid     types.UID
	version string
	all     []v1alpha1.Removal
	size    *int32
}

// see records that a watch has shown a version of an object. list are the removals in this version. The handler of the watch calls see for
// every version, in order.
func (r *Removals) see(o client.Object, list []v1alpha1.Removal) {
	r.seen.Do(o, func(seen *seenRemovals) {
		seen.uid, seen.version = o.GetUID(), o.GetResourceVersion()
		seen.all = v1alpha1.MergeRemovals(list, seen.all)
		if d, ok := o.(*v1alpha1.MachineDeployment); ok && d.Spec.Replicas != nil {
			seen.size = d.Spec.Replicas
		}
	})
}

// shown calls f with what the watch has shown of the object; not at all when it has shown nothing.
func (r *Removals) shown(o client.Object, f func(*seenRemovals)) {
	r.seen.Named(client.ObjectKeyFromObject(o), func(seen *seenRemovals) {
		if seen.uid == o.GetUID() {
			f(seen)
		}
	})
}

// Of returns the removals in all versions of the object that the watch has shown. current is false when o is not the last of these
// versions. Then o may be older or newer than what the watch has shown, and the object must be reconciled again.
func (r *Removals) Of(o client.Object) (all []v1alpha1.Removal, current bool) {
	current = true
	r.shown(o, func(seen *seenRemovals) { all, current = seen.all, seen.version == o.GetResourceVersion() })
	return all, current
}

// Size returns the last spec.replicas of a MachineDeployment that the watch has shown; nil when no version had one.
func (r *Removals) Size(d *v1alpha1.MachineDeployment) (size *int32) {
	r.shown(d, func(seen *seenRemovals) { size = seen.size })
	return size
}

// Keep replaces the remembered removals of an object by list. The caller leaves out the entries that have been carried out. Keep does
// nothing when o is not the last version that the watch showed.
func (r *Removals) Keep(o client.Object, list []v1alpha1.Removal) {
	r.shown(o, func(seen *seenRemovals) {
		if seen.version == o.GetResourceVersion() {
			seen.all = slices.Clone(list)
		}
	})
}

// Remembering returns a predicate that records every version of an object in r, before the handler of the watch gets it, and keeps no event
// from the handler. list returns the removals that a version of the object names.
func Remembering[T client.Object](r *Removals, list func(T) []v1alpha1.Removal) predicate.TypedPredicate[T] {
	p := predicate.NewTypedPredicateFuncs(func(o T) bool {
		r.see(o, list(o))
		return true
	})
	p.DeleteFunc = func(e event.TypedDeleteEvent[T]) bool {
		r.seen.Forget(client.ObjectKeyFromObject(e.Object))
		return true
	}
	return p
}
