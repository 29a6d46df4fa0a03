package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// update replaces an object.
func (s *Registry) update(q *Request) (*store.Record, error) {
	o, err := q.Kind.Read(q.Body)
	if err != nil {
		return nil, err
	}
	if o.GetName() != "" && o.GetName() != q.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.Name))
	}
	old, err := s.find(q)
	if err != nil {
		return nil, err
	}
	if o.GetResourceVersion() == "" && q.Kind.Conditional {
		return nil, apierrors.NewInvalid(q.Kind.GroupKind(), q.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if uid := o.GetUID(); uid != "" && uid != old.Object.GetUID() {
		return nil, apierrors.NewConflict(q.Kind.Resource(), q.Name, wrongUID(string(uid), old))
	}
	return s.change(q, old, o, false)
}

// change replaces the state of an object, but only the fields that a request to its path may change. owned reports whether
// managedFields are already set.
func (s *Registry) change(q *Request, old *store.Record, o *catalog.Object, owned bool) (*store.Record, error) {
	k := q.Kind
	if rv := o.GetResourceVersion(); rv != "" && rv != strconv.FormatUint(old.Revision, 10) {
		return nil, apierrors.NewConflict(k.Resource(), q.Name, errModified)
	}
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && !equality.Semantic.DeepEqual(grace, old.Object.GetDeletionGracePeriodSeconds()) {
		return nil, immutable(q, "deletionGracePeriodSeconds", *grace)
	}
	if !owned {
		var err error
		if o, err = written(q, old, o); err != nil {
			return nil, err
		}
	}
	o = restrict(k, q.Subresource, old.Object, o)
	retain(old.Object, o)
	if owned {
		var err error
		if o, err = k.Settle(o); err != nil {
			return nil, err
		}
	}
	if err := mayChange(k, old.Object, o); err != nil {
		return nil, err
	}
	if k.Counts && differs(old.Object, o, "metadata", whenSplit(k)) {
		o.SetGeneration(old.Object.GetGeneration() + 1)
	}
	return s.finish(k, old, o)
}

// written converts an object from a client into its stored form, and sets managedFields. change calls it before it
// restores the fields that the path may not change.
func written(q *Request, old *store.Record, o *catalog.Object) (*catalog.Object, error) {
	if q.Kind.GroupKind() == catalog.Core("Secret").GroupKind() {
		if err := plainData(o); err != nil {
			return nil, err
		}
	}
	settled, err := q.Kind.Settle(o)
	if err != nil {
		return nil, err
	}
	return q.Kind.Managers[q.Subresource].UpdateNoErrors(old.Object, settled, q.Manager).(*catalog.Object), nil
}

// whenSplit returns the name of a field whose changes do not raise an object's generation. This is status for a kind
// with a status subresource. For other kinds it is metadata, which never raises the generation.
func whenSplit(k *catalog.Kind) string {
	if k.Has(catalog.SubStatus) {
		return "status"
	}
	return "metadata"
}

// differs reports whether two objects differ in any top-level field except the given ones.
func differs(a, b *catalog.Object, but ...string) bool {
	rest := func(o *catalog.Object) map[string]any {
		out := map[string]any{}
		for name, value := range o.Object {
			if !slices.Contains(but, name) {
				out[name] = value
			}
		}
		return out
	}
	return !equality.Semantic.DeepEqual(rest(a), rest(b))
}

// finish stores a changed object, unless nothing changed. It deletes an object whose deletion was only waiting for
// finalizers.
func (s *Registry) finish(k *catalog.Kind, old *store.Record, o *catalog.Object) (*store.Record, error) {
	if same(old.Object, o) {
		return old, nil
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && graceOver(o) {
		answer := o.DeepCopy()
		if err := s.drop(k, o); err != nil {
			return nil, err
		}
		raw, err := json.Marshal(answer.Object)
		return &store.Record{Object: answer, Raw: raw, Revision: old.Revision}, err
	}
	r, err := s.store.Put(k, o)
	if err == nil && !equality.Semantic.DeepEqual(old.Object.GetOwnerReferences(), o.GetOwnerReferences()) {
		s.collectLater(o)
	}
	return r, err
}

func graceOver(o *catalog.Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// restrict restores the fields of an object that a request to the given path (the object itself or a subresource) may
// not change.
func restrict(k *catalog.Kind, subresource string, old, o *catalog.Object) *catalog.Object {
	switch {
	case subresource == "" && k.Has(catalog.SubStatus):
		take(o, old, "status")
		return o
	case subresource == "":
		return o
	case k.Custom:
		out := old.DeepCopy()
		take(out, o, "status")
		out.SetManagedFields(o.GetManagedFields())
		return out
	case subresource == catalog.SubApproval:
		out := old.DeepCopy()
		if status, ok := o.Object["status"].(map[string]any); ok {
			_ = set(out, status["conditions"], "status", "conditions")
		}
		out.SetManagedFields(o.GetManagedFields())
		return out
	}
	take(o, old, "spec")
	return o
}

// retain restores the fields that no client may change.
func retain(old, o *catalog.Object) {
	o.SetName(old.GetName())
	o.SetNamespace(old.GetNamespace())
	o.SetGenerateName(old.GetGenerateName())
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	o.SetGeneration(old.GetGeneration())
}

// mayChange checks the rules for the change of an object.
func mayChange(k *catalog.Kind, old, o *catalog.Object) error {
	if old.GetDeletionTimestamp() != nil {
		var added []string
		for _, name := range o.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), name) {
				added = append(added, name)
			}
		}
		if len(added) > 0 {
			return apierrors.NewInvalid(k.GroupKind(), o.GetName(), field.ErrorList{field.Forbidden(
				field.NewPath("metadata", "finalizers"),
				fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %q", added))})
		}
	}
	if k.GroupKind() == catalog.Core("Secret").GroupKind() {
		return mayChangeSecret(old, o)
	}
	return nil
}
