package registry

import (
	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
)

// Serve carries out a request other than a watch.
func (s *Registry) Serve(q *Request) (any, error) {
	switch q.Verb {
	case "get":
		return s.get(q)
	case "list":
		return s.list(q)
	case "create":
		if q.Subresource == catalog.SubEviction {
			return s.evict(q)
		}
		return s.create(q)
	case "update":
		return s.update(q)
	case "patch":
		return s.patch(q)
	case "delete":
		return s.remove(q)
	}
	return s.removeAll(q)
}
