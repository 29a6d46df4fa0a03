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
	raw, err := merged(q, types.PatchType(kind), old)
	if err != nil {
		return nil, err
	}
	o, err := q.kind.read(raw)
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
func merged(q *request, kind types.PatchType, old *record) ([]byte, error) {
	bad := func(raw []byte, err error) ([]byte, error) {
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return raw, nil
	}
	switch {
	case kind == types.MergePatchType:
		return bad(jsonpatch.MergePatch(old.raw, q.body))
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
		return bad(strategicpatch.StrategicMergePatch(old.raw, q.body, typed))
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
