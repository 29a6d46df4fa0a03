package day

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/autoscaler"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

// World is a cluster and its cloud.
type World struct {
	testing.TB
	Kube  *memory.Server
	Cloud *sim.Cloud
	// Admin is a client that always reaches the API server.
	Admin client.Client

	start Starter
	// load is the number of pods over the day. end ends drover and the autoscaler.
	load []level
	end  context.CancelFunc
	// nodesLate, when it is not nil, holds back the events of drover's watches of Nodes until it is closed.
	nodesLate atomic.Pointer[chan struct{}]
	ctx       context.Context
	stop      context.CancelFunc
	all       sync.WaitGroup
	began     time.Time
	// seen is the cache from which the world itself reads objects.
	seen   cache.Cache
	drover atomic.Pointer[process]
	// apiAway is true while the API server is down for everything but the simulation itself.
	apiAway  atomic.Bool
	replicas *appsv1.ReplicaSet
	serial   int
	nodes    map[string]*nodeHealth
	checker  *checker
	counts   counts

	mu     sync.Mutex
	guests map[string]*guest
}

// step is the interval at which the simulated controllers, kubelets and pods act.
const step = 10 * time.Second

// newWorld creates the cluster and the cloud, and starts everything in them but drover.
func newWorld(t testing.TB, start Starter) *World {
	w := &World{TB: t, start: start, load: load, began: time.Now(), nodes: map[string]*nodeHealth{}, guests: map[string]*guest{}}
	w.checker = newChecker(w)
	w.ctx, w.stop = context.WithCancel(context.Background())
	crds, err := crds()
	w.must(err)
	catalog, err := memory.NewCatalog(crds...)
	w.must(err)
	w.Kube, err = memory.New(memory.Options{Catalog: catalog, NodesUntainted: true, CollectAfter: time.Second})
	w.must(err)
	w.Cloud = sim.New(sim.Config{Seed: sim.SeedMetaKube, BootTime: 40 * time.Second, DeleteTime: 5 * time.Second, PowerTime: 3 * time.Second, Latency: 200 * time.Millisecond})
	w.Cloud.OnBoot(w.booted)
	w.Cloud.OnGone(w.gone)
	w.Admin, err = client.New(w.Kube.Config("admin", "system:masters"), client.Options{Scheme: kinds, Mapper: mapper})
	w.must(err)
	w.seen, err = cache.New(w.Kube.Config("admin", "system:masters"), cache.Options{Scheme: kinds, Mapper: mapper})
	w.must(err)
	w.all.Go(func() { _ = w.seen.Start(w.ctx) })
	w.must(w.installObjects())
	for _, list := range []client.ObjectList{&v1alpha1.MachineList{}, &v1alpha1.MachineDeploymentList{}, &corev1.NodeList{}, &corev1.PodList{}} {
		w.must(w.seen.List(w.ctx, list))
	}
	return w
}

func (w *World) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// clock returns the time of the day as text.
func (w *World) clock() string { return w.time().Truncate(time.Second).String() }

// time returns how long the day has been going on.
func (w *World) time() time.Duration { return time.Since(w.began) }

// log writes a line with the time of the day to the test's log.
func (w *World) log(format string, args ...any) {
	w.Helper()
	w.Logf(w.clock()+" "+format, args...)
}

// runAutoscaler runs the autoscaler until ctx ends.
func (w *World) runAutoscaler(ctx context.Context) {
	k, err := kubernetes.NewForConfig(w.Kube.ConfigOver(&othersToKube{w, w.Kube.RoundTripper("autoscaler")}))
	if err != nil {
		w.Error(err)
		return
	}
	a, err := autoscaler.New(ctx, autoscaler.Options{
		Provider: proto.NewCloudProviderClient(toDrover{w}), Client: k, StartupTaints: []string{v1alpha1.DefaultStartupTaint}, BalanceSimilar: true,
		BalancingIgnore: []string{labelPool, corev1.LabelTopologyZone}, ScanInterval: 20 * time.Second, NoFrequentLoops: true,
	})
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		w.Errorf("the autoscaler has ended: %v", err)
	}
}

// until makes time pass until the day has reached the given time.
func (w *World) until(at time.Duration) {
	w.Helper()
	for w.time() < at && !w.Failed() {
		w.step()
	}
}

// within makes time pass until a condition holds. It fails the test when that takes longer than limit.
func (w *World) within(limit time.Duration, what string, so func() bool) {
	w.Helper()
	for end := time.Now().Add(limit); !so(); w.step() {
		if w.Failed() {
			w.FailNow()
		}
		if time.Now().After(end) {
			w.Fatalf("%s: not reached within %v: %s\n%s", w.clock(), limit, what, w.describe())
		}
	}
}

// step advances the time by one interval, and then runs everything that the world simulates besides drover and the autoscaler.
func (w *World) step() {
	time.Sleep(step)
	synctest.Wait()
	if w.apiAway.Load() {
		w.noteSilence()
		return
	}
	machines, nodes, pods := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	// The lists share the Machines and Nodes with the cache. Nothing below changes one of them without copying it.
	w.must(w.seen.List(w.ctx, machines, client.UnsafeDisableDeepCopy))
	w.must(w.seen.List(w.ctx, nodes, client.UnsafeDisableDeepCopy))
	w.must(w.seen.List(w.ctx, pods))
	w.stepNodes(nodes.Items)
	w.stepPods(nodes.Items, pods.Items)
	w.checker.check(machines.Items, pods.Items)
}

// close stops everything in the world, and returns when all of it has ended.
func (w *World) close() {
	w.mu.Lock()
	for _, g := range w.guests {
		g.stop()
	}
	w.mu.Unlock()
	w.stop()
	w.Cloud.Close()
	w.all.Wait()
}

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
	response, err := t.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" && resourceIn(r.URL.Path) == "nodes" {
		response.Body = &lateBody{t.world, response.Body}
	}
	return response, err
}

// lateBody is the body of a watch of Nodes.
type lateBody struct {
	world *World
	io.ReadCloser
}

// Read reads events. While the watches of Nodes are late, it returns an event only at the end of that time.
func (b *lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if late := b.world.nodesLate.Load(); late != nil {
		select {
		case <-*late:
		case <-b.world.ctx.Done():
		}
	}
	return n, err
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
