package memory

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/registry"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// RoundTripper returns a transport that sends requests as the user with this name and these groups; see
// [Server.Config].
func (s *Server) RoundTripper(name string, groups ...string) http.RoundTripper {
	return door{server: s, user: registry.User{Name: name, Groups: groups}}
}

type door struct {
	server *Server
	user   registry.User
}

// RoundTrip answers one request.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	status, content := d.answer(r, body)
	resp := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}, "Audit-Id": {"memory"}},
	}
	if s, ok := content.(metav1.Status); ok && s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	if w, ok := content.(*watch); ok {
		resp.Body, resp.ContentLength = w, -1
		return resp, nil
	}
	raw, err := encoded(content)
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return resp, nil
}

// encoded returns an answer's content as JSON. The content of a stored object is already encoded.
func encoded(content any) ([]byte, error) {
	switch c := content.(type) {
	case *store.Record:
		return c.Raw, nil
	case []byte:
		return c, nil
	}
	return json.Marshal(content)
}

// answer carries out a request, and returns the status and content of the response.
func (d door) answer(r *http.Request, body []byte) (int, any) {
	who, err := d.server.authenticate(d.user, r.Header.Get("Authorization"))
	if err != nil {
		return failure(err)
	}
	if document, ok := d.server.discover(r.URL.Path); ok {
		return http.StatusOK, document
	}
	q, err := d.server.understand(r)
	if err != nil {
		return failure(err)
	}
	q.User, q.Body = who, body
	content, err := d.server.serve(q)
	if err != nil {
		return failure(err)
	}
	if q.Verb == "create" {
		return http.StatusCreated, content
	}
	return http.StatusOK, content
}

// understand parses the method, the URL and the headers of an HTTP request.
func (s *Server) understand(r *http.Request) (*registry.Request, error) {
	q := &registry.Request{Ctx: r.Context(), Query: r.URL.Query(), Partial: registry.AsksForMetadata(r), PatchType: r.Header.Get("Content-Type")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, noSuchPath()
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != catalog.SubStatus {
		q.Namespace, parts = parts[1], parts[2:]
	}
	if q.Kind = s.catalog.ByPath[gv.WithResource(parts[0])]; q.Kind == nil {
		return nil, noSuchPath()
	}
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Subresource = parts[2]
	}
	if len(parts) > 3 || q.Subresource != "" && !q.Kind.Has(q.Subresource) {
		return nil, noSuchPath()
	}
	q.Manager = q.Query.Get("fieldManager")
	if q.Manager == "" {
		q.Manager, _, _ = strings.Cut(r.UserAgent(), "/")
	}
	var err error
	q.Verb, err = verb(r.Method, q)
	return q, err
}

func noSuchPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "the server could not find the requested resource", 0, false)
}

// verbs maps HTTP methods to verbs by the API's conventions: the verb for one object, and the verb
// for a collection.
var verbs = map[string]struct{ one, all string }{
	http.MethodGet: {"get", "list"}, http.MethodPost: {"", "create"}, http.MethodPut: {"update", ""},
	http.MethodPatch: {"patch", ""}, http.MethodDelete: {"delete", "deletecollection"},
}

// verb returns the verb of a request.
func verb(method string, q *registry.Request) (string, error) {
	if watch := q.Query.Get("watch"); method == http.MethodGet && watch != "" && watch != "false" && watch != "0" {
		return "watch", nil
	}
	if method == http.MethodPost && q.Subresource == catalog.SubEviction {
		return "create", nil
	}
	name := verbs[method].all
	if q.Name != "" {
		name = verbs[method].one
	}
	if name == "" {
		return "", apierrors.NewMethodNotSupported(q.Kind.Resource(), strings.ToLower(method))
	}
	return name, nil
}

// serve carries out a request.
func (s *Server) serve(q *registry.Request) (content any, err error) {
	if q.Query.Has("dryRun") {
		return nil, apierrors.NewBadRequest("this server knows no dry runs")
	}
	s.store.Do(func() {
		if q.Verb == "watch" {
			content, err = s.watch(q)
			return
		}
		content, err = s.registry.Serve(q)
	})
	return content, err
}
