package registry

import (
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

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// patch changes an object. An apply may also create the object.
func (s *Registry) patch(q *Request) (*store.Record, error) {
	kind, _, _ := strings.Cut(q.PatchType, ";")
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
	if o.GetName() != q.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), q.Name))
	}
	if uid := o.GetUID(); uid != old.Object.GetUID() {
		return nil, immutable(q, "uid", uid)
	}
	return s.change(q, old, o, false)
}

// merged returns an object after the merge patch in a request.
func merged(q *Request, kind types.PatchType, old *store.Record) (*catalog.Object, error) {
	if kind == types.MergePatchType {
		var patch any
		if err := utiljson.Unmarshal(q.Body, &patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		fields, ok := patch.(map[string]any)
		if !ok {
			return nil, apierrors.NewBadRequest("a merge patch must be an object")
		}
		content := old.Object.DeepCopy().Object
		overlay(content, fields)
		return q.Kind.Take(content)
	}
	raw, err := patched(q, kind, old)
	if err != nil {
		return nil, err
	}
	return q.Kind.Read(raw)
}

// overlay merges by RFC 7386: null removes a field, an object is merged, and any other value replaces the old one. As
// in the real server, objects in a new list lose their nulls, too.
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

// withoutNulls returns a value of a patch without the fields that are null.
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

// patched returns the bytes of an object after a JSON patch or a strategic merge patch.
func patched(q *Request, kind types.PatchType, old *store.Record) ([]byte, error) {
	switch {
	case kind == types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(q.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		raw, err := p.Apply(old.Raw)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return raw, nil
	case kind == types.StrategicMergePatchType && !q.Kind.Custom:
		typed, err := scheme.Scheme.New(q.Kind.GroupVersionKind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		raw, err := strategicpatch.StrategicMergePatch(old.Raw, q.Body, typed)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return raw, nil
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
		fmt.Sprintf("the body of the request was in an unknown format: %s", kind), 0, false)
}

// apply merges the fields in a server-side apply request with the fields of other managers. old is nil when the
// object does not exist yet.
func (s *Registry) apply(q *Request, old *store.Record) (*store.Record, error) {
	wanted, err := q.wanted(old)
	if err != nil {
		return nil, err
	}
	live, err := q.Kind.Blank()
	if err != nil {
		return nil, err
	}
	if old != nil {
		live = old.Object.DeepCopy()
	}
	out, err := q.Kind.Managers[q.Subresource].Apply(live, wanted, q.Query.Get("fieldManager"), q.Query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	if old == nil {
		return s.applyNew(q, wanted, out)
	}
	if uid := wanted.GetUID(); uid != "" && uid != old.Object.GetUID() {
		return nil, immutable(q, "uid", uid)
	}
	o, ok := out.(*catalog.Object)
	if !ok || o == nil {
		return old, nil
	}
	if wanted.GetResourceVersion() == "" {
		o.SetResourceVersion("")
	}
	return s.change(q, old, o, true)
}

// wanted decodes and checks the object in an apply request.
func (q *Request) wanted(old *store.Record) (*catalog.Object, error) {
	if q.Query.Get("fieldManager") == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
		})
	}
	if old == nil && q.Subresource != "" {
		return nil, apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	o, err := q.Kind.Read(q.Body)
	if err != nil {
		return nil, err
	}
	if name := o.GetName(); name != "" && name != q.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, q.Name))
	}
	return o, nil
}

// applyNew creates the object when an apply did not find it.
func (s *Registry) applyNew(q *Request, wanted *catalog.Object, out any) (*store.Record, error) {
	o, ok := out.(*catalog.Object)
	if !ok || o == nil {
		return nil, apierrors.NewBadRequest("the patch is empty")
	}
	if uid := wanted.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(q.Kind.Resource(), q.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	o.SetName(q.Name)
	return s.born(q, o, true)
}
