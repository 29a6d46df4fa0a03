package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errModified is the cause of a conflict between two writers.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// update replaces an object.
func (s *Server) update(q *request) (*record, error) {
	o, err := q.kind.read(q.body)
	if err != nil {
		return nil, err
	}
	if o.GetName() != "" && o.GetName() != q.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.name))
	}
	old, err := s.find(q)
	if err != nil {
		return nil, err
	}
	if o.GetResourceVersion() == "" && q.kind.conditional {
		return nil, apierrors.NewInvalid(q.kind.GroupKind(), q.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if uid := o.GetUID(); uid != "" && uid != old.object.GetUID() {
		return nil, apierrors.NewConflict(q.kind.resource(), q.name, wrongUID(string(uid), old))
	}
	return s.change(q, old, o, false)
}

func wrongUID(given string, old *record) error {
	return fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", given, old.object.GetUID())
}

// change puts a new state in the place of an old one, as far as the path that it came by may. owned: the owners of its
// fields are on it already.
func (s *Server) change(q *request, old *record, o *object, owned bool) (*record, error) {
	k := q.kind
	if rv := o.GetResourceVersion(); rv != "" && rv != strconv.FormatUint(old.revision, 10) {
		return nil, apierrors.NewConflict(k.resource(), q.name, errModified)
	}
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && !equality.Semantic.DeepEqual(grace, old.object.GetDeletionGracePeriodSeconds()) {
		return nil, immutable(q, "deletionGracePeriodSeconds", *grace)
	}
	if !owned {
		var err error
		if o, err = written(q, old, o); err != nil {
			return nil, err
		}
	}
	o = restrict(k, q.subresource, old.object, o)
	retain(old.object, o)
	if owned || !k.custom {
		var err error
		if o, err = k.settle(o); err != nil {
			return nil, err
		}
	}
	if err := mayChange(k, old.object, o); err != nil {
		return nil, err
	}
	if k.counts && differs(old.object, o, "metadata", whenSplit(k)) {
		o.SetGeneration(old.object.GetGeneration() + 1)
	}
	return s.finish(k, old, o)
}

// written gives what a client sent in the form in which it is stored, with who owns which field of it. Owners are worked
// out before it is cut down to what the path may change.
func written(q *request, old *record, o *object) (*object, error) {
	if q.kind.GroupKind() == core("Secret").GroupKind() {
		if err := plainData(o); err != nil {
			return nil, err
		}
	}
	settled, err := q.kind.settle(o)
	if err != nil {
		return nil, err
	}
	return q.kind.managers[q.subresource].UpdateNoErrors(old.object, settled, q.manager).(*object), nil
}

// whenSplit names the field that a kind's generation does not count: status, when it has a path of its own.
func whenSplit(k *kind) string {
	if k.has(subStatus) {
		return "status"
	}
	return "metadata"
}

// differs compares two objects apart from some top-level fields.
func differs(a, b *object, but ...string) bool {
	rest := func(o *object) map[string]any {
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

// finish stores a changed object, unless nothing changed; one whose deletion was only waiting for finalizers goes.
func (s *Server) finish(k *kind, old *record, o *object) (*record, error) {
	if same(old.object, o) {
		return old, nil
	}
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && graceOver(o) {
		answer := o.DeepCopy()
		if err := s.drop(k, o); err != nil {
			return nil, err
		}
		raw, err := json.Marshal(answer.Object)
		return &record{object: answer, raw: raw, revision: old.revision}, err
	}
	r, err := s.keep(k, o)
	if err == nil && !equality.Semantic.DeepEqual(old.object.GetOwnerReferences(), o.GetOwnerReferences()) {
		s.collectLater(o)
	}
	return r, err
}

func graceOver(o *object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// same tells whether two states differ in nothing but the times at which fields were written.
func same(a, b *object) bool {
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}

// timeless is what an object says apart from its version and those times. Most of it is shared with the object.
func timeless(o *object) map[string]any {
	out := maps.Clone(o.Object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "resourceVersion")
	if entries, ok := metadata["managedFields"].([]any); ok {
		entries = slices.Clone(entries)
		for i := range entries {
			if entry, ok := entries[i].(map[string]any); ok {
				entry = maps.Clone(entry)
				delete(entry, "time")
				entries[i] = entry
			}
		}
		metadata["managedFields"] = entries
	}
	out["metadata"] = metadata
	return out
}

// restrict takes back what a path may not change.
func restrict(k *kind, subresource string, old, o *object) *object {
	switch {
	case subresource == "" && k.has(subStatus):
		take(o, old, "status")
		return o
	case subresource == "":
		return o
	case k.custom:
		out := old.DeepCopy()
		take(out, o, "status")
		out.SetManagedFields(o.GetManagedFields())
		return out
	case subresource == subApproval:
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

// take copies one top-level field, or its absence.
func take(to, from *object, name string) {
	if value, ok := from.Object[name]; ok {
		to.Object[name] = value
		return
	}
	delete(to.Object, name)
}

// retain keeps what no client may change.
func retain(old, o *object) {
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

// mayChange holds the rules between an object and its successor.
func mayChange(k *kind, old, o *object) error {
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
	if k.GroupKind() == core("Secret").GroupKind() {
		return mayChangeSecret(old, o)
	}
	return nil
}
