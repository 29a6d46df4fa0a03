package process

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/schedule"
)

// transport carries the calls of a process to the cloud or to the cluster, and injects faults.
type transport struct {
	process *Process
	next    http.RoundTripper
	// name returns the name of a call, without the parts that differ between runs.
	name func(*http.Request) string
}

// RoundTrip sends a call when the scheduler releases it. When the process is dead, it sends only reads from Kubernetes: see
// call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	name := t.name(r)
	if calls.IsWatch(name) {
		r = shortWatch(r)
	}
	// Discovery does not wait for the scheduler: controller-runtime's REST mapper calls it under a lock, and testing/synctest
	// does not consider goroutines that wait for a lock as idle.
	if !calls.IsDiscovery(r) {
		if err := t.process.world.Scheduler.Await(r.Context(), name, func() string { return calls.Content(r) }); err != nil {
			return nil, err
		}
	}
	resp, err := t.call(r, name)
	if err == nil && calls.IsWatch(name) && resp.StatusCode == http.StatusOK {
		resp.Body = &events{ReadCloser: resp.Body, process: t.process, request: r, name: "watch event " + name}
	}
	return resp, err
}

// call sends a call to its service, or returns an injected failure. Before and after the call are possible fault points, at
// which the process may die. Reads from Kubernetes are sent even after the process has died, because a manager of
// controller-runtime that is stopped before its caches are synced would never return without these reads. They change nothing.
func (t transport) call(r *http.Request, name string) (*http.Response, error) {
	reading := r.Method == http.MethodGet && calls.IsKube(name)
	life := t.process.life
	p, err := life.begin(name)
	if err != nil {
		if reading {
			return t.next.RoundTrip(r)
		}
		if life.diedAt(p) {
			t.holdBack(r, name)
		}
		return nil, err
	}
	paused, err := t.wait(r)
	if err != nil {
		return nil, err
	}
	if paused && calls.CreatesObject(name) {
		t.process.world.RecordLate()
	}
	resp, err := t.answer(p, call{request: r, name: name, carryOut: func() (*http.Response, error) { return t.carryOut(r, name) }})
	gone := life.finish(p)
	if _, late := t.wait(r); gone == nil {
		gone = late
	}
	if gone != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, gone
	}
	return resp, err
}

// answer sends a call to its service, or returns the response of the injected failure.
func (t transport) answer(p Point, c call) (*http.Response, error) {
	if failed, ok := t.process.options.Failing.answer(p, c); ok {
		return failed()
	}
	return c.carryOut()
}

// carryOut sends a call to its service.
func (t transport) carryOut(r *http.Request, name string) (*http.Response, error) {
	t.process.world.BeforeCall(r, name)
	resp, err := t.next.RoundTrip(r)
	t.process.world.AfterCall(r, name)
	return resp, err
}

// wait blocks while the process is paused, and reports whether it was.
func (t transport) wait(r *http.Request) (paused bool, err error) {
	if calls.IsDiscovery(r) {
		return false, nil
	}
	return t.process.life.lease.wait(r.Context())
}

// holdBack sends a create call of a server, port or floating IP after the process that made it has died, as a slow network may.
func (t transport) holdBack(r *http.Request, name string) {
	p := t.process
	if p.options.HoldBack == 0 || !calls.IsCreate(name) {
		return
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return
		}
		late.Body = body
	}
	p.heldBack.Store(true)
	p.world.Go(func() {
		if !schedule.Sleep(p.world.Context, p.options.HoldBack) ||
			p.world.Scheduler.Await(p.world.Context, "late "+name, func() string { return calls.Content(late) }) != nil {
			return
		}
		if resp, err := t.next.RoundTrip(late); err == nil {
			_ = resp.Body.Close()
		}
	})
}

// shortWatch returns the request of a watch with a fixed timeout, because client-go chooses a random one.
func shortWatch(r *http.Request) *http.Request {
	query := r.URL.Query()
	query.Set("timeoutSeconds", strconv.Itoa(300+len(r.URL.Path)))
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

// events is the body of a watch. Each event waits for the scheduler like a call, so that the process does not see a
// change while the client that made the change is still at work.
type events struct {
	io.ReadCloser
	process *Process
	request *http.Request
	name    string
}

// Read returns the next bytes when the scheduler releases the event.
func (e *events) Read(p []byte) (int, error) {
	got, err := e.ReadCloser.Read(p)
	if got == 0 {
		return got, err
	}
	if _, late := e.process.life.lease.wait(e.request.Context()); late != nil {
		return 0, late
	}
	if late := e.process.world.Scheduler.Await(e.request.Context(), e.name, func() string { return e.request.URL.Path }); late != nil {
		return 0, late
	}
	return got, err
}
