package registry

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// list returns a list of the existing objects, or a page of the list.
func (s *Registry) list(q *Request) ([]byte, error) {
	match, err := q.Selection()
	if err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(q.Query.Get("limit"))
	after, err := base64.RawURLEncoding.DecodeString(q.Query.Get("continue"))
	if err != nil {
		return nil, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	var items [][]byte
	last, more := "", ""
	for _, r := range s.store.All(q.Kind) {
		id := store.Key(r.Object.GetNamespace(), r.Object.GetName())
		if len(after) > 0 && id <= string(after) || !match(r.Object) || q.Name != "" && r.Object.GetName() != q.Name {
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
	fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"`, kind, apiVersion, s.store.Newest())
	if more != "" {
		fmt.Fprintf(&out, `,"continue":%q`, more)
	}
	out.WriteString(`},"items":[`)
	out.Write(bytes.Join(items, []byte{','}))
	out.WriteString("]}\n")
	return out.Bytes(), nil
}
