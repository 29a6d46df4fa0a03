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

// wire is what lies between the client and drover. It remembers what was asked, and can fail.
type wire struct {
	mu sync.Mutex
	// route is the replica that a call goes to.
	route func(method string) *drover
	calls map[string]int
	lags  map[string]time.Duration
	// named are the nodes that DeleteNodes has named, by name and provider ID, answered or not.
	named map[string]bool
	// fault decides what becomes of the nth call of a method.
	fault func(method string, n int) fate
	// before is told of a call before it is carried out.
	before func(method string, request any)
}

// fate is what becomes of a call.
type fate int

const (
	carriedOut fate = iota
	// refused: nothing is done, and the client is told at once.
	refused
	// lost: it is done, and the client hears nothing until its deadline.
	lost
	// slow: it is done late, but in time.
	slow
	// astray: it comes to somebody who does not know the method.
	astray
)

func newWire() *wire {
	return &wire{
		calls: map[string]int{}, lags: map[string]time.Duration{}, named: map[string]bool{},
		fault: func(string, int) fate { return carriedOut }, before: func(string, any) {},
	}
}

func (w *wire) to(d *drover) { w.routed(func(string) *drover { return d }) }

func (w *wire) routed(route func(method string) *drover) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.route = route
}

// switches sends calls to one replica until the next call of a method is through, and then to the other.
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

// alternates sends calls to either replica by turns: each call of a method changes over.
func (w *wire) alternates(at string, one, other *drover) {
	w.routed(func(method string) *drover {
		if method == at {
			one, other = other, one
		}
		return one
	})
}

// faulty sets what becomes of calls from now on; they are counted anew.
func (w *wire) faulty(fault func(method string, n int) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.calls = fault, map[string]int{}
}

// sound ends all faults.
func (w *wire) sound() { w.faulty(func(string, int) fate { return carriedOut }) }

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

// lag is how late a user's watches of a resource are.
func (w *wire) lag(user, resource string, _ time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.lags[user], w.lags[user+" "+resource])
}

// late makes a replica's watches late: all, or those of one resource.
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

// note writes down a call and gives its fate.
func (w *wire) note(method string, request any) (fate, *drover, func(string, any)) {
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

// answers tells whether the process lives and has opened its port. One that has died has both channels closed, so that they
// are looked at one after the other.
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

// Invoke is a call of the client's.
func (w *wire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := path.Base(method)
	fate, d, before := w.note(name, args)
	if !d.answers() {
		return status.Error(codes.Unavailable, "connection refused")
	}
	switch fate {
	case refused:
		return status.Error(codes.Unavailable, "cut")
	case astray:
		return status.Error(codes.Unimplemented, "unexpected HTTP status code 404")
	case slow:
		time.Sleep(2 * time.Second)
	}
	before(name, args)
	err := d.server.Invoke(ctx, method, args, reply, opts...)
	if fate == lost {
		<-ctx.Done()
		return status.Error(codes.DeadlineExceeded, "no answer")
	}
	return err
}

// NewStream is not of the protocol.
func (w *wire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}
