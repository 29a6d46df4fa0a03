package registry

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

// owned is a stored object and its kind, as the garbage collector needs them.
type owned struct {
	kind   *catalog.Kind
	record *store.Record
}

// dependents returns the existing objects that have an owner reference with the UID owner.
func (s *Registry) dependents(owner types.UID) []owned {
	named := func(r *store.Record) bool {
		return slices.ContainsFunc(r.Object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
	}
	var out []owned
	for _, k := range s.catalog.Kinds {
		for _, r := range s.store.Select(k, named) {
			out = append(out, owned{k, r})
		}
	}
	return out
}

// exists reports whether the owner that a reference names exists and has the reference's UID.
func (s *Registry) exists(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	k := s.catalog.ByKind[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	if k == nil {
		return false
	}
	if !k.Namespaced {
		namespace = ""
	}
	r, there := s.store.At(k, namespace, ref.Name)
	return there && r.Object.GetUID() == ref.UID
}

// drop deletes an object, and makes the garbage collector check its dependents and owners.
func (s *Registry) drop(k *catalog.Kind, o *catalog.Object) error {
	if err := s.store.Drop(k, o); err != nil {
		return err
	}
	s.orphaned(o.GetUID())
	for _, ref := range o.GetOwnerReferences() {
		s.soon(func() { s.released(ref.UID) })
	}
	return nil
}

// orphaned makes the garbage collector check the dependents of an owner that is gone.
func (s *Registry) orphaned(owner types.UID) {
	s.soon(func() {
		for _, d := range s.dependents(owner) {
			s.collect(d)
		}
	})
}

// collectLater makes the garbage collector check an object whose owners may be gone already.
func (s *Registry) collectLater(o *catalog.Object) {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 {
		return
	}
	uid := o.GetUID()
	s.soon(func() {
		for _, k := range s.catalog.Kinds {
			if r, there := s.store.At(k, o.GetNamespace(), o.GetName()); there && r.Object.GetUID() == uid {
				s.collect(owned{k, r})
			}
		}
	})
}

// soon calls do, which is work of the garbage collector, immediately or after the delay that the rules set. The store
// is locked during the call in both cases.
func (s *Registry) soon(do func()) {
	if s.rules.CollectAfter == 0 {
		do()
		return
	}
	time.AfterFunc(s.rules.CollectAfter, func() { s.store.Do(do) })
}

// collect deletes an object when all of its owners are gone. When only some owners are gone, it removes the
// references to them.
func (s *Registry) collect(d owned) {
	o := d.record.Object
	refs := o.GetOwnerReferences()
	living := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool {
		return !s.exists(ref, o.GetNamespace())
	})
	q := collector(d)
	switch {
	case len(living) == len(refs):
	case len(living) == 0 && o.GetDeletionTimestamp() == nil:
		_, _, _ = s.end(q, d.record, &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	case len(living) > 0:
		changed := o.DeepCopy()
		changed.SetOwnerReferences(living)
		_, _ = s.change(q, d.record, changed, false)
	}
}

func collector(d owned) *Request {
	return &Request{
		Kind: d.kind, Name: d.record.Object.GetName(), Namespace: d.record.Object.GetNamespace(), Manager: "kube-controller-manager",
	}
}

// endDependentsFirst continues a deletion with the policy Foreground or Orphan: it deletes the dependents, or removes
// their references to the deleted object.
func (s *Registry) endDependentsFirst(k *catalog.Kind, r *store.Record) {
	finalizers, uid := r.Object.GetFinalizers(), r.Object.GetUID()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		s.soon(func() {
			for _, d := range s.dependents(uid) {
				changed := d.record.Object.DeepCopy()
				changed.SetOwnerReferences(slices.DeleteFunc(changed.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid }))
				_, _ = s.change(collector(d), d.record, changed, false)
			}
			s.withoutFinalizer(k, r, metav1.FinalizerOrphanDependents)
		})
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		s.soon(func() {
			for _, d := range s.dependents(uid) {
				s.endDependent(d)
			}
			s.released(uid)
		})
	}
}

func (s *Registry) endDependent(d owned) {
	if d.record.Object.GetDeletionTimestamp() == nil {
		_, _, _ = s.end(collector(d), d.record, &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	}
}

// released continues the foreground deletion of an owner when one of its dependents is gone. It deletes the dependents that
// still block the owner, including dependents that were created meanwhile. When none is left, it removes the owner's finalizer.
func (s *Registry) released(owner types.UID) {
	k, r := s.deletingDependents(owner)
	if r == nil {
		return
	}
	for _, d := range s.blocking(owner) {
		s.endDependent(d)
	}
	if len(s.blocking(owner)) == 0 {
		s.withoutFinalizer(k, r, metav1.FinalizerDeleteDependents)
	}
}

// blocking returns the dependents of an owner whose reference to the owner has blockOwnerDeletion.
func (s *Registry) blocking(owner types.UID) []owned {
	return slices.DeleteFunc(s.dependents(owner), func(d owned) bool {
		return !slices.ContainsFunc(d.record.Object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == owner && ptr.Deref(ref.BlockOwnerDeletion, false)
		})
	})
}

// deletingDependents returns the object with the UID owner when it is in foreground deletion, and nil otherwise.
func (s *Registry) deletingDependents(owner types.UID) (*catalog.Kind, *store.Record) {
	inDeletion := func(r *store.Record) bool {
		o := r.Object
		return o.GetUID() == owner && o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
	}
	for _, k := range s.catalog.Kinds {
		if found := s.store.Select(k, inDeletion); len(found) > 0 {
			return k, found[0]
		}
	}
	return nil, nil
}

// withoutFinalizer removes one of the garbage collector's finalizers from an object.
func (s *Registry) withoutFinalizer(k *catalog.Kind, r *store.Record, name string) {
	current, there := s.store.At(k, r.Object.GetNamespace(), r.Object.GetName())
	if !there || !slices.Contains(current.Object.GetFinalizers(), name) {
		return
	}
	changed := current.Object.DeepCopy()
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(f string) bool { return f == name }))
	_, _ = s.change(collector(owned{k, current}), current, changed, false)
}
