package ownership

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NoController is what [ControllerOf] returns for objects without a controller.
const NoController = "none"

// ControllerOf returns the UID of the object's controller, or NoController. It is an index function.
func ControllerOf(o client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{NoController}
}

// RefManager adds and removes the controller references of objects of type T, as the ControllerRefManager of Kubernetes' own controllers
// does.
type RefManager[T client.Object] struct {
	Writer Writer
	// Live reads from the API server itself, without a cache.
	Live client.Reader
	// Owners is the kind of the owners, and Objects the kind of the objects that they own.
	Owners, Objects schema.GroupVersionKind
	// List returns the objects of a namespace whose controller has the given UID, or the objects without a controller if it is
	// [NoController]. The objects belong to the informer cache and must not be changed.
	List func(ctx context.Context, namespace, controller string) ([]T, error)
	// MadeFor reports whether the object was made for the owner, according to both names. An owner adopts no other object.
	MadeFor func(owner, object string) bool
	// Released, unless nil, is called after an object was released.
	Released func(owner types.NamespacedName, object T)
}

// Claim returns the objects that belong to the owner. It releases objects of the owner that the selector no longer matches, and adopts
// objects without a controller that the selector matches and that were made for the owner. It neither releases nor adopts an object that is being deleted. The objects
// belong to the informer cache and must not be changed; adopted objects are copies.
func (m RefManager[T]) Claim(ctx context.Context, owner client.Object, selector labels.Selector) ([]T, error) {
	owned, orphans, err := m.read(ctx, owner)
	if err != nil {
		return nil, err
	}
	var claimed []T
	for _, object := range owned {
		if selector.Matches(labels.Set(object.GetLabels())) || object.GetDeletionTimestamp() != nil {
			claimed = append(claimed, object)
			continue
		}
		if err := m.release(ctx, owner, object); err != nil {
			return nil, err
		}
	}
	for _, object := range orphans {
		matches := selector.Matches(labels.Set(object.GetLabels())) && m.MadeFor(owner.GetName(), object.GetName())
		if !matches || object.GetDeletionTimestamp() != nil {
			continue
		}
		adopted, err := m.adopt(ctx, owner, object)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, adopted)
	}
	return claimed, nil
}

// read returns the objects of the owner, and the objects of its namespace without a controller. The cache may change between two reads: an
// object that gets or loses its controller then would be on neither list, and the owner would replace it. So the objects without a controller
// are read before and after the owned ones. An old version of an object cannot be written.
func (m RefManager[T]) read(ctx context.Context, owner client.Object) (owned, orphans []T, err error) {
	before, err := m.List(ctx, owner.GetNamespace(), NoController)
	if err != nil {
		return nil, nil, err
	}
	if owned, err = m.List(ctx, owner.GetNamespace(), string(owner.GetUID())); err != nil {
		return nil, nil, err
	}
	after, err := m.List(ctx, owner.GetNamespace(), NoController)
	if err != nil {
		return nil, nil, err
	}
	listed := make(map[types.UID]bool, len(owned))
	for _, object := range owned {
		listed[object.GetUID()] = true
	}
	for _, object := range slices.Concat(after, before) {
		if !listed[object.GetUID()] {
			listed[object.GetUID()] = true
			orphans = append(orphans, object)
		}
	}
	return owned, orphans, nil
}

// release removes the owner's reference from an object.
func (m RefManager[T]) release(ctx context.Context, owner client.Object, object T) error {
	ctrl.LoggerFrom(ctx).Info("Releasing an object whose labels no longer match", "kind", m.Objects.Kind, "name", object.GetName())
	refs := slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(o metav1.OwnerReference) bool { return o.UID == owner.GetUID() })
	if _, err := m.write(ctx, object, refs); err != nil {
		return err
	}
	if m.Released != nil {
		m.Released(client.ObjectKeyFromObject(owner), object)
	}
	return nil
}

// adopt makes the owner the controller of an object, unless the API server shows another spec of the owner, or that it is gone or being deleted.
func (m RefManager[T]) adopt(ctx context.Context, owner client.Object, object T) (T, error) {
	if err := CheckCurrent(ctx, m.Live, m.Owners, owner); err != nil {
		return object, fmt.Errorf("adopting %s %s: %w", m.Objects.Kind, object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Adopting an object without a controller", "kind", m.Objects.Kind, "name", object.GetName())
	return m.write(ctx, object, append(slices.Clone(object.GetOwnerReferences()), *metav1.NewControllerRef(owner, m.Owners)))
}

// write stores the owner references of an object, and returns the object as the API server has stored it.
func (m RefManager[T]) write(ctx context.Context, object T, refs []metav1.OwnerReference) (T, error) {
	metadata := Metadata(object)
	metadata["ownerReferences"] = refs
	written := object.DeepCopyObject().(T)
	if err := m.Writer.Merge(ctx, written, map[string]any{"metadata": metadata}); err != nil {
		return written, fmt.Errorf("writing the owner of %s %s: %w", m.Objects.Kind, object.GetName(), err)
	}
	return written, nil
}

// EnsureFinalizer adds a finalizer to the owner, so that the owner exists until the objects that it owns are deleted. machine-controller
// uses the same finalizer.
func EnsureFinalizer(ctx context.Context, w Writer, owner client.Object) error {
	finalizers := owner.GetFinalizers()
	if slices.Contains(finalizers, metav1.FinalizerDeleteDependents) {
		return nil
	}
	err := w.Merge(ctx, owner, map[string]any{"metadata": map[string]any{
		"resourceVersion": owner.GetResourceVersion(), "finalizers": append(slices.Clone(finalizers), metav1.FinalizerDeleteDependents),
	}})
	if err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// Pointers returns pointers to the items of a list.
func Pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
