package autoscaler

import (
	"context"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/proto"
)

// wire is the connection between the client and drover. It records the calls, and can make them fail.
type wire struct {
	mu sync.Mutex
	// route returns the replica to which a call goes.
	route func(method string) *drover
	calls map[string]int
	lags  map[string]time.Duration
	// named holds the nodes that DeleteNodes has named, by name and provider ID, whether or not the call succeeded.
	named map[string]bool
	// fault returns the outcome of the nth call of a method.
	fault func(method string, n int) outcome
	// before is called with each call before it is carried out.
	before func(method string, request any)
}

// outcome is the outcome of a call.
type outcome int

const (
	carriedOut outcome = iota
	// refused means that the call is not carried out, and the client immediately receives an error.
	refused
	// lost means that the call is carried out, and the client receives nothing until its deadline.
	lost
	// slow means that the call is carried out late, but in time.
	slow
	// misrouted means that the call reaches a service that does not have the method.
	misrouted
)

func newWire() *wire {
	return &wire{
		calls: map[string]int{}, lags: map[string]time.Duration{}, named: map[string]bool{},
		fault: func(string, int) outcome { return carriedOut }, before: func(string, any) {},
	}
}

func (w *wire) to(d *drover) { w.routed(func(string) *drover { return d }) }

func (w *wire) routed(route func(method string) *drover) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.route = route
}

// switches sends the client's calls to one replica (from). After the next call of the given method, it sends all calls to another
// replica (to). An empty method means that the first call already goes to the other replica.
func (w *wire) switches(after string, from, to *drover) {
	switched := after == ""
	w.routed(func(method string) *drover {
		if switched {
			return to
		}
		switched = method == after
		return from
	})
}

// alternates sends the client's calls to two replicas in turn: before each call of the given method it changes the replica.
func (w *wire) alternates(at string, one, other *drover) {
	w.routed(func(method string) *drover {
		if method == at {
			one, other = other, one
		}
		return one
	})
}

// faulty makes the function fault decide the outcome of each further call. For each method, the number n of the call starts again
// at 1.
func (w *wire) faulty(fault func(method string, n int) outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.calls = fault, map[string]int{}
}

// endFaults makes all further calls succeed.
func (w *wire) endFaults() { w.faulty(func(string, int) outcome { return carriedOut }) }

func (w *wire) count(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[method]
}

func (w *wire) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

// lag returns by how much the API server delays the events in a user's watches of a resource.
func (w *wire) lag(user, resource string, _ time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.lags[user], w.lags[user+" "+resource])
}

// late delays the events of a replica's watches: of all watches, or of those of one resource.
func (w *wire) late(d *drover, by time.Duration, resource ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lags[strings.Join(append([]string{d.user}, resource...), " ")] = by
}

func (w *wire) names(names ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if w.named[name] {
			return true
		}
	}
	return false
}

// note records a call and returns its outcome.
func (w *wire) note(method string, request any) (outcome, *drover, func(string, any)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[method]++
	if r, ok := request.(*proto.NodeGroupDeleteNodesRequest); ok {
		for _, n := range r.GetNodes() {
			w.named[n.GetName()], w.named[n.GetProviderID()] = true, true
		}
	}
	return w.fault(method, w.calls[method]), w.route(method), w.before
}

// answers reports whether the replica runs and its caches are synced. It checks first whether the replica has ended, because then
// both channels are closed.
func (d *drover) answers() bool {
	select {
	case <-d.done:
		return false
	default:
	}
	select {
	case <-d.synced:
		return true
	default:
		return false
	}
}

// Invoke carries a call of the client to a replica, with the outcome that the scenario has set for it.
func (w *wire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := path.Base(method)
	outcome, d, before := w.note(name, args)
	if !d.answers() {
		return status.Error(codes.Unavailable, "connection refused")
	}
	switch outcome {
	case refused:
		return status.Error(codes.Unavailable, "cut")
	case misrouted:
		return status.Error(codes.Unimplemented, "unexpected HTTP status code 404")
	case slow:
		time.Sleep(2 * time.Second)
	}
	before(name, args)
	err := d.server.Invoke(ctx, method, args, reply, opts...)
	if outcome == lost {
		<-ctx.Done()
		return status.Error(codes.DeadlineExceeded, "no answer")
	}
	return err
}

// NewStream returns an error, because the protocol has no streams.
func (w *wire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}
