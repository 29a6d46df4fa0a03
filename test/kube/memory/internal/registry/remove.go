package registry

import (
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// remove deletes one object. It returns the object if finalizers or a grace period delay the deletion, and otherwise
// a success status.
func (s *Registry) remove(q *Request) (any, error) {
	var options metav1.DeleteOptions
	if err := decode(q, &options); err != nil {
		return nil, err
	}
	if policy := q.Query.Get("propagationPolicy"); policy != "" {
		options.PropagationPolicy = ptr.To(metav1.DeletionPropagation(policy))
	}
	old, err := s.find(q)
	if err != nil {
		return nil, err
	}
	r, gone, err := s.end(q, old, &options)
	if err != nil {
		return nil, err
	}
	if gone {
		return success(q, old.Object), nil
	}
	return r, nil
}

// removeAll deletes the objects that a list with the same selectors returns.
func (s *Registry) removeAll(q *Request) (any, error) {
	var options metav1.DeleteOptions
	if err := decode(q, &options); err != nil {
		return nil, err
	}
	match, err := q.Selection()
	if err != nil {
		return nil, err
	}
	for _, listed := range s.store.All(q.Kind) {
		r, there := s.store.At(q.Kind, listed.Object.GetNamespace(), listed.Object.GetName())
		if !there || !match(r.Object) {
			continue
		}
		one := *q
		one.Namespace, one.Name = r.Object.GetNamespace(), r.Object.GetName()
		if _, _, err := s.end(&one, r, &options); err != nil {
			return nil, err
		}
	}
	return success(q, &catalog.Object{Object: map[string]any{}}), nil
}

// end deletes an object, or only marks it as being deleted when finalizers, a grace period or its dependents delay
// the deletion.
func (s *Registry) end(q *Request, old *store.Record, options *metav1.DeleteOptions) (r *store.Record, gone bool, err error) {
	if err := preconditions(q, old, options.Preconditions); err != nil {
		return nil, false, err
	}
	o := old.Object.DeepCopy()
	o.SetFinalizers(propagation(o.GetFinalizers(), options))
	grace := graceOf(q.Kind, o, options)
	if len(o.GetFinalizers()) == 0 && grace == 0 {
		return nil, true, s.drop(q.Kind, o)
	}
	if first := o.GetDeletionTimestamp() == nil; first {
		at := store.Now()
		at.Time = at.Add(secondsOf(grace))
		o.SetDeletionTimestamp(&at)
		o.SetDeletionGracePeriodSeconds(&grace)
		if o.GetGeneration() > 0 {
			o.SetGeneration(o.GetGeneration() + 1)
		}
	} else if had := o.GetDeletionGracePeriodSeconds(); had != nil && grace < *had {
		o.SetDeletionGracePeriodSeconds(&grace)
	}
	if same(old.Object, o) {
		return old, false, nil
	}
	if r, err = s.store.Put(q.Kind, o); err != nil {
		return nil, false, err
	}
	s.endDependentsFirst(q.Kind, r)
	_, there := s.store.At(q.Kind, o.GetNamespace(), o.GetName())
	return r, !there, nil
}

func preconditions(q *Request, old *store.Record, p *metav1.Preconditions) error {
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != old.Object.GetUID():
		return apierrors.NewConflict(q.Kind.Resource(), q.Name, wrongUID(string(*p.UID), old))
	case p.ResourceVersion != nil && *p.ResourceVersion != strconv.FormatUint(old.Revision, 10):
		return apierrors.NewConflict(q.Kind.Resource(), q.Name, errModified)
	}
	return nil
}

// propagation returns an object's finalizers, changed by the propagation policy of its deletion.
func propagation(finalizers []string, options *metav1.DeleteOptions) []string {
	policy := ptr.Deref(options.PropagationPolicy, "")
	if policy == "" {
		return finalizers
	}
	out := slices.DeleteFunc(slices.Clone(finalizers), func(name string) bool {
		return name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
	})
	switch policy {
	case metav1.DeletePropagationForeground:
		out = append(out, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	return out
}

// defaultGrace is the number of seconds that a pod on a node has to end.
const defaultGrace = 30

// graceOf returns the grace period of an object in seconds. Only pods that run on a node have one.
func graceOf(k *catalog.Kind, o *catalog.Object, options *metav1.DeleteOptions) int64 {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if k.GroupKind() != catalog.Core("Pod").GroupKind() || node == "" || phase == "Failed" || phase == "Succeeded" {
		return 0
	}
	if options.GracePeriodSeconds != nil {
		return *options.GracePeriodSeconds
	}
	if own, ok, _ := unstructured.NestedInt64(o.Object, "spec", "terminationGracePeriodSeconds"); ok {
		return own
	}
	return defaultGrace
}
