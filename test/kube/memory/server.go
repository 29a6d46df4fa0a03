package memory

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/registry"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// init makes the process only log the errors of informers. By default Kubernetes' libraries also sleep until a millisecond has
// passed since the last error of the process. In the virtual time of testing/synctest, which begins in the year 2000, that is a
// sleep of decades after an error in real time.
func init() {
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(ctx context.Context, err error, message string, details ...any) {
		klog.FromContext(ctx).Error(err, message, details...)
	}}
}

// Host is the address under which clients know the server. No process listens there.
const Host = "http://kubernetes.invalid"

// Options configure a Server. The zero value serves the built-in kinds.
type Options struct {
	// Catalog holds the kinds that are served. Nil means only the built-in kinds.
	Catalog *Catalog
	// Version is the version that the server reports, such as v1.37.1. Default: v1.37.1.
	Version string
	// Lag, when set, returns the delay until a user's watch of a resource (its plural name) shows a change that was
	// written at the given time. It is called again whenever the watch looks for changes. The watch always shows
	// changes in order.
	Lag func(user, resource string, written time.Time) time.Duration
	// Changed, when set, is called after each change with its resource and revision, before a watch shows it. It must not call the
	// server.
	Changed func(resource string, revision uint64)
	// CollectAfter is the delay until the garbage collector notices that an owner is gone. Default: none.
	CollectAfter time.Duration
	// NodesUntainted turns off the admission plug-in TaintNodesByCondition. It is for tests without a node lifecycle
	// controller, which would remove the taint not-ready.
	NodesUntainted bool
}

// Catalog is a set of kinds. It is immutable, and several servers may share it.
type Catalog = catalog.Catalog

// NewCatalog returns a catalog of the built-in kinds, and of the kinds that the CustomResourceDefinitions among the
// objects define. It returns an error if it cannot read one of these CustomResourceDefinitions.
func NewCatalog(objects ...*unstructured.Unstructured) (*Catalog, error) {
	return catalog.New(objects...)
}

// Server is one API server with its store. It uses the process's time, which in a bubble of testing/synctest is the
// bubble's time.
type Server struct {
	options Options
	catalog *catalog.Catalog

	store    *store.Store
	registry *registry.Registry
}

// New returns a server with the namespaces that every cluster has.
func New(o Options) (*Server, error) {
	if o.Version == "" {
		o.Version = "v1.37.1"
	}
	if o.Catalog == nil {
		var err error
		if o.Catalog, err = catalog.New(); err != nil {
			return nil, err
		}
	}
	s := &Server{options: o, catalog: o.Catalog, store: store.New(o.Catalog.Kinds, o.Changed)}
	s.registry = registry.New(o.Catalog, s.store, registry.Rules{CollectAfter: o.CollectAfter, NodesUntainted: o.NodesUntainted})
	namespaces := s.catalog.ByPath[catalog.Core("Namespace").GroupVersion().WithResource("namespaces")]
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"} {
		q := &registry.Request{Kind: namespaces, Verb: "create", Manager: "kube-apiserver", Body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)}
		if _, err := s.registry.Serve(q); err != nil {
			return nil, fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return s, nil
}

// Config returns a client configuration for a user with all permissions. When the name is empty, the user follows
// from the bootstrap token in each request.
func (s *Server) Config(user string, groups ...string) *rest.Config {
	return s.ConfigOver(s.RoundTripper(user, groups...))
}

// ConfigOver returns a client configuration with the transport rt, which wraps a RoundTripper of this server.
func (s *Server) ConfigOver(rt http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: Host, Transport: rt, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// Revision returns the number of the newest change. It stays the same while no object changes.
func (s *Server) Revision() (revision uint64) {
	s.store.Do(func() { revision = s.store.Newest() })
	return revision
}

// CutWatches ends the open watches of these resources (plural names). Without arguments it ends all watches, as a
// restart of the server does.
func (s *Server) CutWatches(resources ...string) {
	s.store.Do(func() { s.store.CutWatches(resources) })
}

// Forget drops the history of these resources (plural names) and ends their watches. Without arguments it does so for
// all resources. A watch that continues from an older revision receives the error that the revision has expired (410).
func (s *Server) Forget(resources ...string) {
	s.store.Do(func() { s.store.Forget(resources) })
}
