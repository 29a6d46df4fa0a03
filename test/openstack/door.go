package openstack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
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
	// token is who asks; nil where none is needed.
	token *token
	// version is the compute microversion that was asked for.
	version microversion
}

// project is the one that the token is for.
func (q *request) project() string { return q.token.project.ID }

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

// errDropped: the connection is to be cut without an answer.
var errDropped = errors.New("connection reset by the simulated cloud")

// Handler is the API, for a listener of one's own. Start makes one.
func (c *Cloud) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := c.answer(r)
		if err != nil {
			cut(w)
			return
		}
		h := w.Header()
		for k, v := range a.header {
			h[k] = v
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	})
}

// cut closes the connection under the client.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// RoundTripper is the second door: it answers in the caller's goroutine, whatever the host in the URL is.
func (c *Cloud) RoundTripper() http.RoundTripper { return roundTripper{c} }

// Transport is RoundTripper in the shape of a transport, for those who need that type: it sends every http:// URL into
// this cloud.
func (c *Cloud) Transport() *http.Transport {
	t := &http.Transport{}
	t.RegisterProtocol("http", c.RoundTripper())
	return t
}

type roundTripper struct{ cloud *Cloud }

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	a, err := t.cloud.answer(in)
	_ = in.Body.Close()
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}, nil
}

// answered is a reply on its way out.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// answer takes a call through latency, limits and faults to its handler, and logs it.
func (c *Cloud) answer(r *http.Request) (answered, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answered{}, err
	}
	q := &request{Request: r, body: body, base: "http://" + r.Host}
	rt, known := c.match(r)
	q.service = rt.service
	call := Call{Time: c.clock.Now(), Service: rt.service, Method: r.Method, Path: rt.path}
	f := c.enter(&call)

	a, err := c.carryOut(r.Context(), callInHand{q: q, route: rt, known: known, fault: f, call: &call})
	c.leave(call, a.status)
	return a, err
}

// callInHand is a call with what was found out about it on its way in.
type callInHand struct {
	q     *request
	route route
	known bool
	fault Fault
	call  *Call
}

func (c *Cloud) carryOut(ctx context.Context, in callInHand) (answered, error) {
	latency, end, paced, err := c.paces.begin(ctx, c.closed, in.call.Name())
	defer end()
	if !paced {
		latency = c.cfg.Latency
	}
	if err == nil {
		err = c.wait(ctx, latency+in.fault.Delay)
	}
	if err != nil {
		return answered{}, err
	}
	switch {
	case in.fault.Hang:
		return answered{}, c.hang(ctx)
	case in.fault.Refuse, c.refusesConnections(in.route.service):
		return answered{}, errDropped
	case in.fault.Status != 0:
		return in.fault.reply(), nil
	}
	if a, limited := c.overRate(in.route.service); limited {
		return a, nil
	}
	var out reply
	c.locked(func() {
		in.q.now = c.clock.Now()
		out = c.dispatch(in)
		if in.q.token != nil {
			in.call.Project = in.q.token.project.Name
		}
	})
	if in.fault.Drop {
		return answered{status: out.status}, errDropped
	}
	return in.q.finish(out), nil
}

func (c *Cloud) dispatch(in callInHand) reply {
	if !in.known {
		return notFoundPage()
	}
	if bad, refused := c.authorize(in.q, in.route); refused {
		return bad
	}
	if in.route.service == serviceCompute {
		if bad, refused := c.negotiate(in.q); refused {
			return bad
		}
	}
	return in.route.handle(c, in.q)
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

// wait lets time pass on the cloud's clock. Error: the client went away or the cloud was closed.
func (c *Cloud) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := c.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return errDropped
	}
}

func (c *Cloud) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return errDropped
	}
}

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
