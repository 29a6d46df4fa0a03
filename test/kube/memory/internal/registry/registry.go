// Package registry carries out requests on objects by the rules of the Kubernetes API: creation, updates, patches,
// deletion with finalizers and dependents, evictions, lists. It knows nothing about HTTP and watches; its caller locks
// the store.
package registry

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// Registry carries out requests on objects by the rules of the API. Its methods must be called inside of its store's
// [store.Store.Do].
type Registry struct {
	catalog *catalog.Catalog
	store   *store.Store
	rules   Rules
}

// Rules are the parts of the API server's behaviour that a test may choose.
type Rules struct {
	CollectAfter   time.Duration
	NodesUntainted bool
}

// New returns a registry that serves the kinds in the catalog and keeps their objects in the store.
func New(c *catalog.Catalog, s *store.Store, r Rules) *Registry {
	return &Registry{catalog: c, store: s, rules: r}
}

// find returns the object that a request names.
func (s *Registry) find(q *Request) (*store.Record, error) {
	r, ok := s.store.At(q.Kind, q.Namespace, q.Name)
	if !ok {
		return nil, apierrors.NewNotFound(q.Kind.Resource(), q.Name)
	}
	return r, nil
}

func (s *Registry) get(q *Request) ([]byte, error) {
	r, err := s.find(q)
	if err != nil {
		return nil, err
	}
	return q.shown(r)
}
