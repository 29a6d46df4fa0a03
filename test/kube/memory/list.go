package memory

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection gives the test that a request's namespace and selectors make.
func (q *request) selection() (func(*object) bool, error) {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if !q.kind.selects(requirement.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"unable to find %q that match label selector %q, field selector %q: field label not supported: %s",
				q.kind.GroupVersion().WithResource(q.kind.plural), byLabel, byField, requirement.Field))
		}
	}
	return func(o *object) bool {
		return (q.namespace == "" || o.GetNamespace() == q.namespace) &&
			byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fieldsOf{o})
	}, nil
}

// eventFields are what both kinds of events may be selected by.
var eventFields = []string{"involvedObject.", "regarding.", "reason", "reportingController", "source", "type"}

func (k *kind) selects(name string) bool {
	if name == "metadata.name" || name == "metadata.namespace" && k.namespaced || slices.Contains(k.selectable, name) {
		return true
	}
	return k.Kind == "Event" && slices.ContainsFunc(eventFields, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// fieldsOf shows an object's fields to a selector by dotted path.
type fieldsOf struct{ o *object }

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

// list gives the living objects, or a page of them.
func (s *Server) list(q *request) ([]byte, error) {
	match, err := q.selection()
	if err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(q.query.Get("limit"))
	after, err := base64.RawURLEncoding.DecodeString(q.query.Get("continue"))
	if err != nil {
		return nil, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	st := s.stores[q.kind]
	var items [][]byte
	last, more := "", ""
	for _, id := range st.sortedKeys() {
		r := st.records[id]
		if len(after) > 0 && id <= string(after) || !match(r.object) || q.name != "" && r.object.GetName() != q.name {
			continue
		}
		if limit > 0 && len(items) == limit {
			more = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		item, err := q.shown(r)
		if err != nil {
			return nil, err
		}
		items, last = append(items, item), id
	}
	var out bytes.Buffer
	kind, apiVersion := q.listed()
	fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"`, kind, apiVersion, s.revision)
	if more != "" {
		fmt.Fprintf(&out, `,"continue":%q`, more)
	}
	out.WriteString(`},"items":[`)
	out.Write(bytes.Join(items, []byte{','}))
	out.WriteString("]}\n")
	return out.Bytes(), nil
}
