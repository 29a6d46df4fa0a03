// Package api holds what the services share to answer calls: requests, replies, routes, microversions, pages, and errors in
// the form of each service. It has no notion of kinds of resources.
package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Request is a call in the form in which its handler receives it. The cloud's lock is held while a handler runs.
type Request struct {
	*http.Request
	Body []byte
	// Service is the first part of the path: identity, compute, network, image, volume.
	Service string
	// Base is the scheme and host as the client wrote them, so that links in answers use the same address as the call.
	Base string
	// Now is when the call is carried out.
	Now time.Time
	// Caller is the party that makes the call; the zero value where no token is needed.
	Caller Caller
	// Version is the requested microversion of compute.
	Version Microversion
}

// Caller is the party that a token was issued to.
type Caller struct {
	User, Project, ProjectName string
	// Admin is true for a caller with the role admin. Neutron lists the resources of all projects for it.
	Admin bool
}

// Sees reports whether Neutron shows the caller the resources of a project that are not shared.
func (c Caller) Sees(project string) bool { return c.Admin || c.Project == project }

// Project returns the ID of the project that the token is for.
func (q *Request) Project() string { return q.Caller.Project }

// Reply is the answer of a handler. When Body is nil, the answer has an empty body.
type Reply struct {
	Status int
	header http.Header
	Body   any
}

// With returns the reply with an additional header.
func (r Reply) With(key, value string) Reply {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(key, value)
	return r
}

// Ok returns the reply 200 with a body of one key.
func Ok(key string, v any) Reply { return Reply{Status: http.StatusOK, Body: wire.Object{{key, v}}} }

// Empty returns a reply without a body.
func Empty(status int) Reply { return Reply{Status: status} }

// NotFoundPage is the answer to a path that no service has.
func NotFoundPage() Reply {
	return Reply{Status: http.StatusNotFound, Body: wire.Object{
		{"error", wire.Object{{"code", http.StatusNotFound}, {"title", "Not Found"}, {"message", "The resource could not be found."}}},
	}}
}

// Decode decodes the body. When it cannot, it returns a reply in the service's own style.
func (q *Request) Decode(into any) (Reply, bool) {
	err := StrictDecode(q.Body, into)
	if err == nil {
		return Reply{}, true
	}
	if name, unknown := UnknownKey(err); unknown && q.Service == ServiceNetwork {
		return q.Refuse(http.StatusBadRequest, "Unrecognized attribute(s) '%s'", name), false
	}
	return q.Refuse(http.StatusBadRequest, "Malformed request body: %s", err), false
}

// list splits a comma-separated query value; nil when it is absent.
func (q *Request) list(key string) []string {
	v := q.URL.Query().Get(key)
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// Tagged reports whether the resource o matches the query's filters tags, tags-any, not-tags and not-tags-any.
func (q *Request) Tagged(o wire.Object) bool {
	v, _ := o.Get("tags")
	tags, _ := v.([]string)
	has := func(t string) bool { return slices.Contains(tags, t) }
	lacks := func(t string) bool { return !has(t) }
	all, anyOf, notAll, notAny := q.list("tags"), q.list("tags-any"), q.list("not-tags"), q.list("not-tags-any")
	switch {
	case slices.ContainsFunc(all, lacks), len(anyOf) > 0 && !slices.ContainsFunc(anyOf, has):
		return false
	case len(notAll) > 0 && !slices.ContainsFunc(notAll, lacks), slices.ContainsFunc(notAny, has):
		return false
	}
	return true
}

// Finish encodes a reply. The caller need not hold the cloud's lock.
func (q *Request) Finish(r Reply) Answer {
	a := Answer{Status: r.Status, Header: r.header}
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set("X-Openstack-Request-ID", "req-"+string(uuid.NewUUID()))
	if !q.Now.IsZero() {
		a.Header.Set("Date", q.Now.UTC().Format(http.TimeFormat))
	}
	if q.Service == ServiceCompute && q.Version != (Microversion{}) {
		a.Header.Set("X-Openstack-Nova-Api-Version", q.Version.String())
		a.Header.Set("Openstack-Api-Version", "compute "+q.Version.String())
		a.Header.Set("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
	}
	if r.Body == nil {
		return a
	}
	if text, plain := r.Body.(string); plain {
		a.Header.Set("Content-Type", "text/plain; charset=UTF-8")
		a.Body = []byte(text)
		return a
	}
	a.Header.Set("Content-Type", "application/json")
	a.Body = wire.Encode(nil, r.Body)
	return a
}

// Answer is an encoded reply.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}
