package openstack

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/kernel"
)

// Handler returns the API's handler, for a listener of the caller. Start uses it for its own listener.
func (c *Cloud) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := c.answer(r)
		if err != nil {
			cut(w)
			return
		}
		h := w.Header()
		for k, v := range a.Header {
			h[k] = v
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	})
}

// cut closes the client's connection without an answer.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// RoundTripper returns a RoundTripper that answers in the caller's goroutine, whatever the host in the URL is.
func (c *Cloud) RoundTripper() http.RoundTripper { return roundTripper{c} }

// Transport returns RoundTripper in the form of an *http.Transport, for callers that need that type. It sends every
// http:// URL to this cloud.
func (c *Cloud) Transport() *http.Transport {
	t := &http.Transport{}
	t.RegisterProtocol("http", c.RoundTripper())
	return t
}

type roundTripper struct{ cloud *Cloud }

// RoundTrip answers one request.
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
		Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}, nil
}

// answer passes a call through latency, limits and faults to its handler, and logs the call.
func (c *Cloud) answer(r *http.Request) (api.Answer, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return api.Answer{}, err
	}
	q := &api.Request{Request: r, Body: body, Base: "http://" + r.Host}
	rt, known := c.router.Match(r)
	q.Service = rt.Service
	call := Call{Time: c.kernel.Now(), Service: rt.Service, Method: r.Method, Path: rt.Path}
	c.calls.Enter()
	f := c.faults.Take(&call)

	a, err := c.carryOut(r.Context(), callInHand{q: q, route: rt, known: known, fault: f, call: &call})
	call.Status, call.Duration = a.Status, c.kernel.Since(call.Time)
	c.calls.Leave(call)
	return a, err
}

// callInHand is a call that the cloud is answering: the request, its route, the fault that applies to it, and its entry
// in the log.
type callInHand struct {
	q     *api.Request
	route api.Route
	known bool
	fault Fault
	call  *Call
}

func (c *Cloud) carryOut(ctx context.Context, in callInHand) (api.Answer, error) {
	latency, end, paced, err := c.paces.Begin(ctx, c.kernel.Done(), in.call.Name())
	defer end()
	if !paced {
		latency = c.cfg.Latency
	}
	if err == nil {
		err = c.kernel.Wait(ctx, latency+in.fault.Delay)
	}
	if err != nil {
		return api.Answer{}, err
	}
	switch {
	case in.fault.Hang:
		return api.Answer{}, c.kernel.Hang(ctx)
	case in.fault.Refuse, c.refusesConnections(in.route.Service):
		return api.Answer{}, kernel.ErrDropped
	case in.fault.Status != 0:
		return in.fault.Reply(), nil
	}
	if a, limited := c.rates.Over(in.route.Service); limited {
		return a, nil
	}
	var out api.Reply
	c.kernel.Do(func() {
		in.q.Now = c.kernel.Now()
		out = c.dispatch(in)
		in.call.Project = in.q.Caller.ProjectName
	})
	if in.fault.Drop {
		return api.Answer{Status: out.Status}, kernel.ErrDropped
	}
	return in.q.Finish(out.In(c.cfg.ErrorForm, in.route.Service)), nil
}

func (c *Cloud) dispatch(in callInHand) api.Reply {
	if !in.known {
		return api.NotFoundPage()
	}
	if bad, refused := c.identity.Authorize(in.q, in.route); refused {
		return bad
	}
	if in.route.Service == api.ServiceCompute {
		if bad, refused := c.negotiate(in.q); refused {
			return bad
		}
	}
	return in.route.Handle(in.q)
}

// refusesConnections reports whether a service refuses connections.
func (c *Cloud) refusesConnections(service string) (refuses bool) {
	c.kernel.Hold(func() { refuses = service == api.ServiceNetwork && c.network.Down() })
	return refuses
}
