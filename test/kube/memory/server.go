package memory

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Host is the address under which clients know the server. Nothing listens there.
const Host = "http://kubernetes.invalid"

// Options are how a Server is made. The zero value serves the built-in kinds.
type Options struct {
	// Catalog is what is served; nil: the built-in kinds alone.
	Catalog *Catalog
	// Version is what the server says its version is, such as v1.37.1. Default: that.
	Version string
	// Lag, when set, is how long after a write a watch of that resource (its plural name) by that user shows it.
	Lag func(user, resource string) time.Duration
	// CollectAfter is how long the garbage collector takes to notice that an owner is gone. Default: not at all.
	CollectAfter time.Duration
	// NodesUntainted turns off the admission plug-in TaintNodesByCondition, for tests without a node lifecycle controller,
	// which would remove the taint not-ready.
	NodesUntainted bool
}

// Server is one API server with its store. Its time is the process's, so in a bubble of testing/synctest the bubble's.
type Server struct {
	options Options
	catalog *Catalog

	mu       sync.Mutex
	revision uint64
	serial   int
	stores   map[*kind]*store
	watches  map[*watch]bool
}

// store is what there is of one kind.
type store struct {
	// records are the living objects by namespace/name.
	records map[string]*record
	// events are what has happened since the floor, in order.
	events []event
	// floor is the newest revision that is forgotten: a watch cannot begin there or before.
	floor uint64
}

// New makes a server with the namespaces that every cluster has.
func New(o Options) (*Server, error) {
	if o.Version == "" {
		o.Version = "v1.37.1"
	}
	if o.Catalog == nil {
		var err error
		if o.Catalog, err = NewCatalog(); err != nil {
			return nil, err
		}
	}
	s := &Server{options: o, catalog: o.Catalog, stores: map[*kind]*store{}, watches: map[*watch]bool{}}
	for _, k := range s.catalog.kinds {
		s.stores[k] = &store{records: map[string]*record{}}
	}
	namespaces := s.catalog.byPath[core("Namespace").GroupVersion().WithResource("namespaces")]
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"} {
		q := &request{kind: namespaces, manager: "kube-apiserver", body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)}
		if _, err := s.create(q); err != nil {
			return nil, fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return s, nil
}

// Config is a connection in the name of a user, who may do everything. The name empty: whoever the request's bearer
// token is for, which must be a bootstrap token.
func (s *Server) Config(user string, groups ...string) *rest.Config {
	return s.ConfigOver(s.RoundTripper(user, groups...))
}

// ConfigOver is a connection over a RoundTripper of the server's that the caller has put something before.
func (s *Server) ConfigOver(rt http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: Host, Transport: rt, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// Revision is the number of the newest change: as long as it stays, nothing has changed.
func (s *Server) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// CutWatches ends every watch that is open, as a restart of the server does.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.cut()
	}
}

// Forget drops the history: a watch that wants to go on from an older revision is told that it has expired (410).
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.stores {
		st.events, st.floor = nil, s.revision
	}
	for w := range s.watches {
		w.cut()
	}
}
