package day

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
)

// Connections holds the connections of one drover process. They replace the network.
type Connections struct {
	// Kube is the connection to the API server.
	Kube *rest.Config
	// Cloud carries the calls to the cloud. Environment are the variables with which OpenStack's clients sign in to it.
	Cloud       http.RoundTripper
	Environment []string
}

// Program is one drover process that was started.
type Program struct {
	// Groups is the gRPC service of the process. It answers once Ready is closed.
	Groups grpc.ClientConnInterface
	Ready  <-chan struct{}
}

// Starter runs a drover process until ctx ends. It calls started when the gRPC service exists, and returns when the process has
// ended.
type Starter func(ctx context.Context, c Connections, started func(Program)) error

// errDead is the error of each call of a process that was killed.
var errDead = errors.New("this process was killed")

// errRefused is the error of a connection to an API server that is down.
var errRefused = errors.New("dial tcp 192.0.2.1:443: connect: connection refused")

// process is one run of drover, from its start to its end.
type process struct {
	stop    context.CancelFunc
	killed  atomic.Bool
	program atomic.Pointer[Program]
	// done is closed when the process has ended.
	done chan struct{}
}

// restartAfter is the time from the end of one drover process to the start of the next.
const restartAfter = 10 * time.Second

// keepDrover starts drover, and starts it again each time it ends, until the world ends.
func (w *World) keepDrover(ctx context.Context) {
	for ctx.Err() == nil {
		p := w.launch(ctx)
		w.drover.Store(p)
		<-p.done
		if ctx.Err() == nil {
			w.counts.starts.Add(1)
			sleep(ctx, restartAfter)
		}
	}
}

// launch starts a drover process.
func (w *World) launch(ctx context.Context) *process {
	ctx, stop := context.WithCancel(ctx)
	p := &process{stop: stop, done: make(chan struct{})}
	kube := w.Kube.ConfigOver(&droverToKube{world: w, process: p, next: w.Kube.RoundTripper("drover")})
	kube.UserAgent = "drover"
	c := Connections{Kube: kube, Cloud: &droverToCloud{process: p, next: w.Cloud.RoundTripper()}, Environment: w.Cloud.Environment()}
	go func() {
		defer close(p.done)
		defer stop()
		err := w.start(ctx, c, func(program Program) { p.program.Store(&program) })
		w.log("drover has ended: %v", err)
	}()
	return p
}

// kill ends the running drover like SIGKILL: from now on none of its calls is sent.
func (w *World) kill() {
	p := w.drover.Load()
	p.killed.Store(true)
	p.stop()
	<-p.done
}

// droverToKube carries the calls of one drover process to the API server, unless the process was killed or the API
// server is down.
type droverToKube struct {
	world   *World
	process *process
	next    http.RoundTripper
}

// RoundTrip counts a call and sends it. It returns an error when the process was killed or the API server is down.
func (t *droverToKube) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case t.process.killed.Load():
		return nil, errDead
	case t.world.apiAway.Load():
		return nil, errRefused
	}
	t.world.counts.kubeCall(r)
	return t.next.RoundTrip(r)
}

// droverToCloud carries the calls of one drover process to the cloud, unless the process was killed.
type droverToCloud struct {
	process *process
	next    http.RoundTripper
}

// RoundTrip sends a call. It returns an error when the process was killed.
func (t *droverToCloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.process.killed.Load() {
		return nil, errDead
	}
	return t.next.RoundTrip(r)
}

// othersToKube carries the calls of the kubelets and of the autoscaler to the API server, unless the API server is
// down.
type othersToKube struct {
	world *World
	next  http.RoundTripper
}

// RoundTrip sends a call. It returns an error when the API server is down.
func (t *othersToKube) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.world.apiAway.Load() {
		return nil, errRefused
	}
	return t.next.RoundTrip(r)
}

// toDrover carries the calls of the autoscaler to the running drover.
type toDrover struct{ world *World }

// Invoke sends a call of the autoscaler. It returns the status Unavailable when no drover process serves gRPC.
func (t toDrover) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	p := t.world.drover.Load()
	if p == nil || p.killed.Load() {
		return status.Error(codes.Unavailable, "Connection refused")
	}
	program := p.program.Load()
	if program == nil {
		return status.Error(codes.Unavailable, "Connection refused")
	}
	select {
	case <-p.done:
		return status.Error(codes.Unavailable, "Connection refused")
	default:
	}
	select {
	case <-program.Ready:
	default:
		return status.Error(codes.Unavailable, "Connection refused")
	}
	t.world.checker.called(method, args)
	return program.Groups.Invoke(ctx, method, args, reply, opts...)
}

// NewStream returns an error because the protocol has no streams.
func (toDrover) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "No streams")
}

// sleep waits for d, and returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
