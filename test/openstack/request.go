package openstack

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// request is a call as a handler sees it. Handlers run with the lock held.
type request struct {
	*http.Request
	body []byte
	// service is the first part of the path: identity, compute, network, image, volume.
	service string
	// base is scheme and host as the client wrote them: links in answers lead back to the door it came through.
	base string
	// now is when the call is carried out.
	now time.Time
	// caller is who asks; the zero value where no token is needed.
	caller caller
	// version is the compute microversion that was asked for.
	version microversion
}

// caller is the party that a token was issued to.
type caller struct{ user, project, projectName string }

// project returns the ID of the project that the token is for.
func (q *request) project() string { return q.caller.project }

// reply is an answer: body nil sends none.
type reply struct {
	status int
	header http.Header
	body   any
}

func (r reply) with(key, value string) reply {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(key, value)
	return r
}

func ok(key string, v any) reply { return reply{status: http.StatusOK, body: object{{key, v}}} }

func empty(status int) reply { return reply{status: status} }

func notFoundPage() reply {
	return reply{status: http.StatusNotFound, body: object{
		{"error", object{{"code", http.StatusNotFound}, {"title", "Not Found"}, {"message", "The resource could not be found."}}},
	}}
}

// decode reads a body; an answer in the service's own style comes back when it cannot.
func (q *request) decode(into any) (reply, bool) {
	err := strictDecode(q.body, into)
	if err == nil {
		return reply{}, true
	}
	if name, unknown := unknownKey(err); unknown && q.service == serviceNetwork {
		return q.refuse(http.StatusBadRequest, "Unrecognized attribute(s) '%s'", name), false
	}
	return q.refuse(http.StatusBadRequest, "Malformed request body: %s", err), false
}

// list splits a comma separated query value; nil when it is absent.
func (q *request) list(key string) []string {
	v := q.URL.Query().Get(key)
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// tagged applies the four tag filters.
func (q *request) tagged(o object) bool {
	v, _ := o.get("tags")
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

// finish encodes an answer, without the lock.
func (q *request) finish(r reply) answered {
	a := answered{status: r.status, header: r.header}
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("X-Openstack-Request-Id", "req-"+string(uuid.NewUUID()))
	if !q.now.IsZero() {
		a.header.Set("Date", q.now.UTC().Format(http.TimeFormat))
	}
	if q.service == serviceCompute && q.version != (microversion{}) {
		a.header.Set("X-Openstack-Nova-Api-Version", q.version.String())
		a.header.Set("Openstack-Api-Version", "compute "+q.version.String())
		a.header.Set("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
	}
	if r.body == nil {
		return a
	}
	if text, plain := r.body.(string); plain {
		a.header.Set("Content-Type", "text/plain; charset=UTF-8")
		a.body = []byte(text)
		return a
	}
	a.header.Set("Content-Type", "application/json")
	a.body = encode(nil, r.body)
	return a
}
