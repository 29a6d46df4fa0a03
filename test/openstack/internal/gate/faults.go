package gate

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/wire"
)

// Fault makes selected calls fail.
type Fault struct {
	// Call selects calls by method and path template, such as `POST /servers`. `*` stands for any method, or for any whole path
	// (`GET *`). Empty means every call.
	Call string
	// Service restricts the fault to one service (compute, network …). Empty means all services.
	Service string
	// After is the number of matching calls that succeed first.
	After int
	// Times is the number of calls after which the fault ends. 0 means that it lasts until it is cleared.
	Times int

	// Delay is how long the call waits before anything else happens.
	Delay time.Duration
	// Hang makes the call wait forever; the call is not carried out.
	Hang bool
	// Refuse closes the connection; the call is not carried out.
	Refuse bool
	// Status, Header and Body are the answer; the call is not carried out. An empty Body is replaced by an error text.
	Status int
	Header http.Header
	Body   string
	// Drop carries out the call and closes the connection instead of answering.
	Drop bool
}

func (f Fault) matches(call *Call) bool {
	if f.Service != "" && f.Service != call.Service {
		return false
	}
	method, path, found := strings.Cut(f.Call, " ")
	if !found {
		return f.Call == "" || f.Call == "*"
	}
	return (method == "*" || method == call.Method) && (path == "*" || path == call.Path)
}

// Reply returns the answer that the fault gives instead of the service.
func (f Fault) Reply() api.Answer {
	a := api.Answer{Status: f.Status, Header: f.Header.Clone(), Body: []byte(f.Body)}
	if a.Header == nil {
		a.Header = http.Header{}
	}
	if f.Body == "" {
		text := http.StatusText(f.Status)
		a.Body = wire.Encode(nil, wire.Object{{"error", wire.Object{{"code", f.Status}, {"title", text}, {"message", text + " (asked for by a test)"}}}})
	}
	if a.Header.Get("Content-Type") == "" {
		a.Header.Set("Content-Type", "application/json")
	}
	return a
}

type armed struct {
	Fault
	seen, hit int
	cleared   bool
}

// Faults holds the faults that tests inject.
type Faults struct {
	mu    sync.Mutex
	armed []*armed
}

// Inject adds a fault. When several faults match a call, the one added first applies. The returned function clears the fault.
func (t *Faults) Inject(f Fault) (clear func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &armed{Fault: f}
	t.armed = append(t.armed, a)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		a.cleared = true
	}
}

// Clear clears all faults.
func (t *Faults) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = nil
}

// Take returns the fault that applies to a call; the zero Fault when there is none.
func (t *Faults) Take(call *Call) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = slices.DeleteFunc(t.armed, func(a *armed) bool {
		return a.cleared || (a.Times > 0 && a.hit >= a.Times)
	})
	for _, a := range t.armed {
		if !a.matches(call) {
			continue
		}
		if a.seen++; a.seen > a.After {
			a.hit++
			return a.Fault
		}
	}
	return Fault{}
}

// ProxyPage returns a fault that answers a call as a proxy in front of OpenStack would: with a page of the proxy's own and the
// given status. The call is not carried out.
func ProxyPage(call string, status int) Fault {
	return Fault{
		Call: call, Status: status, Header: http.Header{"Content-Type": {"text/html"}},
		Body: "<html><head><title>proxy</title></head><body>default backend - " + http.StatusText(status) + "</body></html>",
	}
}
