package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is one call, understood.
type request struct {
	ctx  context.Context
	user user
	kind *kind
	// verb is get, list, watch, create, update, patch, delete or deletecollection.
	verb                         string
	namespace, name, subresource string
	query                        url.Values
	body                         []byte
	// partial: only metadata is asked for.
	partial bool
	// patchType is the content type of a patch.
	patchType string
	// manager is in whose name fields are owned.
	manager string
}

// RoundTripper answers requests in the name of a user; see [Server.Config].
func (s *Server) RoundTripper(name string, groups ...string) http.RoundTripper {
	return door{server: s, user: user{name: name, groups: groups}}
}

type door struct {
	server *Server
	user   user
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

// encoded gives the bytes of an answer: a record's as they are stored.
func encoded(content any) ([]byte, error) {
	switch c := content.(type) {
	case *record:
		return c.raw, nil
	case []byte:
		return c, nil
	}
	return json.Marshal(content)
}

// answer gives status and content.
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
	q.user, q.body = who, body
	content, err := d.server.serve(q)
	if err != nil {
		return failure(err)
	}
	if q.verb == "create" {
		return http.StatusCreated, content
	}
	return http.StatusOK, content
}

// failure puts an error into the form in which the API tells it.
func failure(err error) (int, any) {
	s := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		s = known.Status()
	}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return int(s.Code), s
}

// understand reads a request's line and headers.
func (s *Server) understand(r *http.Request) (*request, error) {
	q := &request{ctx: r.Context(), query: r.URL.Query(), partial: asksForMetadata(r), patchType: r.Header.Get("Content-Type")}
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
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != subStatus {
		q.namespace, parts = parts[1], parts[2:]
	}
	if q.kind = s.catalog.byPath[gv.WithResource(parts[0])]; q.kind == nil {
		return nil, noSuchPath()
	}
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = parts[2]
	}
	if len(parts) > 3 || q.subresource != "" && !q.kind.has(q.subresource) {
		return nil, noSuchPath()
	}
	q.manager = q.query.Get("fieldManager")
	if q.manager == "" {
		q.manager, _, _ = strings.Cut(r.UserAgent(), "/")
	}
	var err error
	q.verb, err = verb(r.Method, q)
	return q, err
}

func noSuchPath() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "the server could not find the requested resource", 0, false)
}

// verbs are the API's conventions: a method asks one thing of an object and another of a collection.
var verbs = map[string]struct{ one, all string }{
	http.MethodGet: {"get", "list"}, http.MethodPost: {"", "create"}, http.MethodPut: {"update", ""},
	http.MethodPatch: {"patch", ""}, http.MethodDelete: {"delete", "deletecollection"},
}

// verb names what is asked.
func verb(method string, q *request) (string, error) {
	if watch := q.query.Get("watch"); method == http.MethodGet && watch != "" && watch != "false" && watch != "0" {
		return "watch", nil
	}
	if method == http.MethodPost && q.subresource == subEviction {
		return "create", nil
	}
	name := verbs[method].all
	if q.name != "" {
		name = verbs[method].one
	}
	if name == "" {
		return "", apierrors.NewMethodNotSupported(q.kind.resource(), strings.ToLower(method))
	}
	return name, nil
}

// serve carries out a request.
func (s *Server) serve(q *request) (any, error) {
	if q.query.Has("dryRun") {
		return nil, apierrors.NewBadRequest("this server knows no dry runs")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q.verb {
	case "get":
		return s.get(q)
	case "list":
		return s.list(q)
	case "watch":
		return s.watch(q)
	case "create":
		if q.subresource == subEviction {
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
