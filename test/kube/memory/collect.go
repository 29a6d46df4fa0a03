package memory

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

// owned is an object with its kind.
type owned struct {
	kind   *kind
	record *record
}

// dependents gives the living objects that name an owner.
func (s *Server) dependents(owner types.UID) []owned {
	var out []owned
	for _, k := range s.catalog.kinds {
		for _, id := range s.stores[k].sortedKeys() {
			r := s.stores[k].records[id]
			if slices.ContainsFunc(r.object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }) {
				out = append(out, owned{k, r})
			}
		}
	}
	return out
}

// exists tells whether what a reference names is there, with that UID.
func (s *Server) exists(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	k := s.catalog.byKind[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	if k == nil {
		return false
	}
	if !k.namespaced {
		namespace = ""
	}
	r, there := s.stores[k].records[key(namespace, ref.Name)]
	return there && r.object.GetUID() == ref.UID
}

// orphaned has the collector look at what an owner that is gone leaves.
func (s *Server) orphaned(owner types.UID) {
	s.soon(func() {
		for _, d := range s.dependents(owner) {
			s.collect(d)
		}
	})
}

// collectLater has the collector look at an object whose owners may be gone already, and at an owner in deletion that
// waits for it.
func (s *Server) collectLater(o *object) {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 {
		return
	}
	uid := o.GetUID()
	s.soon(func() {
		for _, k := range s.catalog.kinds {
			if r, there := s.stores[k].records[key(o.GetNamespace(), o.GetName())]; there && r.object.GetUID() == uid {
				s.collect(owned{k, r})
			}
		}
	})
}

// soon does something as the collector, at once or after the time it takes. The lock is held, then too.
func (s *Server) soon(do func()) {
	if s.options.CollectAfter == 0 {
		do()
		return
	}
	time.AfterFunc(s.options.CollectAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

// collect deletes an object none of whose owners is left, and takes the owners that are gone off one that has others.
func (s *Server) collect(d owned) {
	o := d.record.object
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

func collector(d owned) *request {
	return &request{
		kind: d.kind, name: d.record.object.GetName(), namespace: d.record.object.GetNamespace(), manager: "kube-controller-manager",
	}
}

// endDependentsFirst follows a deletion that asked for its dependents to go first, or to be let go.
func (s *Server) endDependentsFirst(k *kind, r *record) {
	finalizers, uid := r.object.GetFinalizers(), r.object.GetUID()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		s.soon(func() {
			for _, d := range s.dependents(uid) {
				changed := d.record.object.DeepCopy()
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

func (s *Server) endDependent(d owned) {
	if d.record.object.GetDeletionTimestamp() == nil {
		_, _, _ = s.end(collector(d), d.record, &metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	}
}

// released looks again at an owner in foreground deletion of which a dependent has gone: those that still block it, and
// were perhaps born late, go too; with the last of them the owner's finalizer goes.
func (s *Server) released(owner types.UID) {
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

// blocking gives the dependents for which an owner waits.
func (s *Server) blocking(owner types.UID) []owned {
	return slices.DeleteFunc(s.dependents(owner), func(d owned) bool {
		return !slices.ContainsFunc(d.record.object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == owner && ptr.Deref(ref.BlockOwnerDeletion, false)
		})
	})
}

// deletingDependents finds an owner that is in foreground deletion; nil when it is not.
func (s *Server) deletingDependents(owner types.UID) (*kind, *record) {
	for _, k := range s.catalog.kinds {
		for _, r := range s.stores[k].records {
			o := r.object
			if o.GetUID() == owner && o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				return k, r
			}
		}
	}
	return nil, nil
}

// withoutFinalizer takes one of the collector's own finalizers off an object.
func (s *Server) withoutFinalizer(k *kind, r *record, name string) {
	current, there := s.stores[k].records[key(r.object.GetNamespace(), r.object.GetName())]
	if !there || !slices.Contains(current.object.GetFinalizers(), name) {
		return
	}
	changed := current.object.DeepCopy()
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(f string) bool { return f == name }))
	_, _ = s.change(collector(owned{k, current}), current, changed, false)
}
