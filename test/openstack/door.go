package openstack

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
)

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

// answer takes a call through latency, limits and faults to its handler, and logs it.
func (c *Cloud) answer(r *http.Request) (answered, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return answered{}, err
	}
	q := &request{Request: r, body: body, base: "http://" + r.Host}
	rt, known := c.router.match(r)
	q.service = rt.service
	call := Call{Time: c.kernel.now(), Service: rt.service, Method: r.Method, Path: rt.path}
	c.calls.enter()
	f := c.faults.take(&call)

	a, err := c.carryOut(r.Context(), callInHand{q: q, route: rt, known: known, fault: f, call: &call})
	call.Status, call.Duration = a.status, c.kernel.since(call.Time)
	c.calls.leave(call)
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
	latency, end, paced, err := c.paces.begin(ctx, c.kernel.done(), in.call.Name())
	defer end()
	if !paced {
		latency = c.cfg.Latency
	}
	if err == nil {
		err = c.kernel.wait(ctx, latency+in.fault.Delay)
	}
	if err != nil {
		return answered{}, err
	}
	switch {
	case in.fault.Hang:
		return answered{}, c.kernel.hang(ctx)
	case in.fault.Refuse, c.refusesConnections(in.route.service):
		return answered{}, errDropped
	case in.fault.Status != 0:
		return in.fault.reply(), nil
	}
	if a, limited := c.rates.over(in.route.service); limited {
		return a, nil
	}
	var out reply
	c.kernel.do(func() {
		in.q.now = c.kernel.now()
		out = c.dispatch(in)
		in.call.Project = in.q.caller.projectName
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
	if bad, refused := c.identity.authorize(in.q, in.route); refused {
		return bad
	}
	if in.route.service == serviceCompute {
		if bad, refused := c.negotiate(in.q); refused {
			return bad
		}
	}
	return in.route.handle(in.q)
}

// refusesConnections reports whether a service does not listen.
func (c *Cloud) refusesConnections(service string) (refuses bool) {
	c.kernel.hold(func() { refuses = service == serviceNetwork && c.network.down() })
	return refuses
}
