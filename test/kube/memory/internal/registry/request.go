package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// Request is one parsed request.
type Request struct {
	Ctx  context.Context
	User User
	Kind *catalog.Kind
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb                         string
	Namespace, Name, Subresource string
	Query                        url.Values
	Body                         []byte
	// Partial is true when only metadata is requested.
	Partial bool
	// PatchType is the content type of a patch.
	PatchType string
	// Manager is the field manager of the request.
	Manager string
}

// User is the user who makes a request.
type User struct {
	Name   string
	Groups []string
}

// partialKind is the kind of an object in an answer when only its metadata is requested.
const partialKind = "PartialObjectMetadata"

// shown returns a stored object as JSON: the whole object, or only its metadata if the request asks for that.
func (q *Request) shown(r *store.Record) ([]byte, error) {
	if !q.Partial {
		return r.Raw, nil
	}
	if r.Partial == nil {
		metadata, err := json.Marshal(r.Object.Object["metadata"])
		if err != nil {
			return nil, err
		}
		r.Partial = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s}`, partialKind, metav1.SchemeGroupVersion, metadata)
	}
	return r.Partial, nil
}

// listed returns the kind and API version of the list that answers a request.
func (q *Request) listed() (kind, apiVersion string) {
	if q.Partial {
		return partialKind + "List", metav1.SchemeGroupVersion.String()
	}
	return q.Kind.Kind + "List", q.Kind.GroupVersion().String()
}
func immutable(q *Request, name string, value any) error {
	return apierrors.NewInvalid(q.Kind.GroupKind(), q.Name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", name), value, "field is immutable"),
	})
}

// success returns the answer to a completed deletion.
func success(q *Request, o *catalog.Object) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: o.GetName(), Group: q.Kind.Group, Kind: q.Kind.Plural, UID: o.GetUID()},
	}
}

// decode decodes a request's body into a Go type. It accepts an empty body.
func decode(q *Request, into any) error {
	if len(q.Body) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.Body, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// Selection returns a function that reports whether an object matches a request's namespace and selectors.
func (q *Request) Selection() (func(*catalog.Object) bool, error) {
	byLabel, err := labels.Parse(q.Query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.Query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if !q.Kind.Selects(requirement.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"unable to find %q that match label selector %q, field selector %q: field label not supported: %s",
				q.Kind.GroupVersion().WithResource(q.Kind.Plural), byLabel, byField, requirement.Field))
		}
	}
	return func(o *catalog.Object) bool {
		return (q.Namespace == "" || o.GetNamespace() == q.Namespace) &&
			byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fieldsOf{o})
	}, nil
}

// fieldsOf provides a selector with an object's fields by dotted path.
type fieldsOf struct{ o *catalog.Object }

func (f fieldsOf) Has(name string) bool { return f.Get(name) != "" }

func (f fieldsOf) Get(name string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(f.o.Object, strings.Split(name, ".")...)
	if value == nil && strings.HasSuffix(name, "unschedulable") {
		return "false"
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// AsksForMetadata reports whether a client requests only the metadata of objects. A watch sends whole
// objects, whatever its request asks for.
func AsksForMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as="+partialKind)
}
