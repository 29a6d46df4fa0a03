package memory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// patch changes an object, or for an apply makes it.
func (s *Server) patch(q *request) (*record, error) {
	kind, _, _ := strings.Cut(q.patchType, ";")
	old, err := s.find(q)
	if types.PatchType(kind) == types.ApplyPatchType {
		return s.apply(q, old)
	}
	if err != nil {
		return nil, err
	}
	o, err := merged(q, types.PatchType(kind), old)
	if err != nil {
		return nil, err
	}
	if o.GetName() != q.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.name))
	}
	if uid := o.GetUID(); uid != old.object.GetUID() {
		return nil, immutable(q, "uid", uid)
	}
	return s.change(q, old, o, false)
}

func immutable(q *request, name string, value any) error {
	return apierrors.NewInvalid(q.kind.GroupKind(), q.name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", name), value, "field is immutable"),
	})
}

// merged gives an object with a patch laid over it.
func merged(q *request, kind types.PatchType, old *record) (*object, error) {
	if kind == types.MergePatchType {
		var patch any
		if err := utiljson.Unmarshal(q.body, &patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		fields, ok := patch.(map[string]any)
		if !ok {
			return nil, apierrors.NewBadRequest("a merge patch must be an object")
		}
		content := old.object.DeepCopy().Object
		overlay(content, fields)
		return q.kind.take(content)
	}
	raw, err := patched(q, kind, old)
	if err != nil {
		return nil, err
	}
	return q.kind.read(raw)
}

// overlay is RFC 7386's merge: null takes a field away, an object is merged, anything else takes the place of what was.
// As in the real server objects in a new list lose their nulls too.
func overlay(onto, patch map[string]any) {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(onto, name)
		case map[string]any:
			inner, ok := onto[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				onto[name] = inner
			}
			overlay(inner, v)
		default:
			onto[name] = withoutNulls(value)
		}
	}
}

// withoutNulls gives a value of a patch without the fields that are null.
func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		fields := map[string]any{}
		overlay(fields, v)
		return fields
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return value
}

// patched gives the bytes of an object with one of the other patches laid over it.
func patched(q *request, kind types.PatchType, old *record) ([]byte, error) {
	switch {
	case kind == types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		raw, err := p.Apply(old.raw)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return raw, nil
	case kind == types.StrategicMergePatchType && !q.kind.custom:
		typed, err := scheme.Scheme.New(q.kind.GroupVersionKind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		raw, err := strategicpatch.StrategicMergePatch(old.raw, q.body, typed)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return raw, nil
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
		fmt.Sprintf("the body of the request was in an unknown format: %s", kind), 0, false)
}

// apply merges what a manager wants with what others own; old is nil when there is nothing yet.
func (s *Server) apply(q *request, old *record) (*record, error) {
	wanted, err := q.wanted(old)
	if err != nil {
		return nil, err
	}
	live, err := q.kind.blank()
	if err != nil {
		return nil, err
	}
	if old != nil {
		live = old.object.DeepCopy()
	}
	out, err := q.kind.managers[q.subresource].Apply(live, wanted, q.query.Get("fieldManager"), q.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	if old == nil {
		return s.applyNew(q, wanted, out)
	}
	if uid := wanted.GetUID(); uid != "" && uid != old.object.GetUID() {
		return nil, immutable(q, "uid", uid)
	}
	o, ok := out.(*object)
	if !ok || o == nil {
		return old, nil
	}
	if wanted.GetResourceVersion() == "" {
		o.SetResourceVersion("")
	}
	return s.change(q, old, o, true)
}

// wanted reads what is to be applied.
func (q *request) wanted(old *record) (*object, error) {
	if q.query.Get("fieldManager") == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
		})
	}
	if old == nil && q.subresource != "" {
		return nil, apierrors.NewNotFound(q.kind.resource(), q.name)
	}
	o, err := q.kind.read(q.body)
	if err != nil {
		return nil, err
	}
	if name := o.GetName(); name != "" && name != q.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, q.name))
	}
	return o, nil
}

// applyNew makes what an apply did not find.
func (s *Server) applyNew(q *request, wanted *object, out any) (*record, error) {
	o, ok := out.(*object)
	if !ok || o == nil {
		return nil, apierrors.NewBadRequest("the patch is empty")
	}
	if uid := wanted.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(q.kind.resource(), q.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	o.SetName(q.name)
	return s.born(q, o, true)
}

// decode reads a request's body into a Go type; an empty body is none.
func decode(q *request, into any) error {
	if len(q.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.body, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
