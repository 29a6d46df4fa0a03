package memory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// partialKind is what an object is called when only its metadata is asked for.
const partialKind = "PartialObjectMetadata"

// asksForMetadata tells whether a client wants objects without anything but their metadata. (A watch shows whole ones.)
func asksForMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as="+partialKind)
}

// shown is a record as the request wants to have it.
func (q *request) shown(r *record) ([]byte, error) {
	if !q.partial {
		return r.raw, nil
	}
	if r.partial == nil {
		metadata, err := json.Marshal(r.object.Object["metadata"])
		if err != nil {
			return nil, err
		}
		r.partial = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s}`, partialKind, metav1.SchemeGroupVersion, metadata)
	}
	return r.partial, nil
}

// listed is the kind and API version that a list of objects bears.
func (q *request) listed() (kind, apiVersion string) {
	if q.partial {
		return partialKind + "List", metav1.SchemeGroupVersion.String()
	}
	return q.kind.Kind + "List", q.kind.GroupVersion().String()
}
