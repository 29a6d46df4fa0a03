package world

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/schedule"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

// BootMargin is longer than a server takes to boot.
const BootMargin = 30 * time.Second

// Options configures a world. Catalog is required.
type Options struct {
	Catalog *memory.Catalog
	Seed    uint64
	// LateCreates is true when a create call may arrive long after it was sent, when another process has already created its own
	// resource.
	LateCreates bool
	// SilentServers is true when no server starts a kubelet.
	SilentServers bool
	// PodVolume is true when pods have a volume, and a PodDisruptionBudget forbids their eviction until 45 s after RecordDeletion.
	PodVolume bool
	// Safety is true when drover replaces unhealthy Machines, collects orphans and watches the API server's
	// reachability, as it does in production. Nodes whose kubelets were stopped become Unknown 40 s later.
	Safety bool
	// DisturbedWatch disturbs drover's watches. Nil means that no watch is disturbed.
	DisturbedWatch *DisturbedWatch
	// Forced is true when Machines are deleted by force. Then the order of deletion is not checked, and resources may be left in
	// the cloud.
	Forced bool
}

// World holds everything around drover in a run. It must be created and used inside a synctest bubble.
type World struct {
	Options
	Kube  *memory.Server
	Cloud *sim.Cloud
	// Admin is a client whose calls never fail.
	Admin     client.Client
	Scheduler *schedule.Scheduler
	Random    io.Reader
	// Workers is the number of Machines that a process handles concurrently: one, two or three.
	Workers int
	// Context is cancelled when the world is closed.
	Context context.Context

	stop     context.CancelFunc
	all      sync.WaitGroup
	replicas *appsv1.ReplicaSet
	others   unrelated
	teardown teardown
	storage  storage
	safety   safety
	watches  *watches

	// late is the number of creates of Machines and Secrets that a process began before a pause and that were carried out after it, when
	// another process led.
	late atomic.Int64

	mu       sync.Mutex
	kubelets map[string]context.CancelFunc
}

// New creates a cluster and a cloud with what drover needs to create servers, and with unrelated resources.
func New(options Options) (*World, error) {
	seed := options.Seed
	source := rand.New(rand.NewPCG(seed, 1))
	usual := lagOf(source)
	drawn := newRandom(seed)
	w := &World{
		Options: options, Random: drawn, Workers: 1 + int(seed+1)%3, Scheduler: schedule.New(source),
		kubelets: map[string]context.CancelFunc{}, safety: newSafety(),
		Cloud: sim.New(sim.Config{
			Seed: sim.SeedMetaKube, Random: drawn, BootTime: 20 * time.Second, DeleteTime: 5 * time.Second, PowerTime: 3 * time.Second,
			Latency: []time.Duration{0, 50 * time.Millisecond, time.Second}[seed%3],
		}),
	}
	w.watches = newWatches(w, options.DisturbedWatch)
	lag := func(user, resource string, written time.Time) time.Duration {
		if user != "drover" {
			return 0
		}
		return usual(resource) + w.watches.lag(resource, written)
	}
	var err error
	w.Kube, err = memory.New(memory.Options{Catalog: options.Catalog, Lag: lag, Changed: w.watches.changed, NodesUntainted: true})
	if err != nil {
		return nil, err
	}
	w.Context, w.stop = context.WithCancel(context.Background())
	w.Go(func() { w.Scheduler.Run(w.Context) })
	w.Go(w.watches.run)
	w.Cloud.OnBoot(w.booted)
	w.Cloud.OnGone(w.gone)
	if w.Admin, err = client.New(w.Kube.Config("admin", "system:masters"), client.Options{Scheme: Kinds, Mapper: mapper}); err != nil {
		return nil, err
	}
	if err := w.fill(); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) fill() error {
	if err := w.installObjects(); err != nil {
		return err
	}
	var err error
	if w.others, err = placeUnrelated(w); err != nil {
		return err
	}
	if w.Safety {
		if err := w.createDefinitions(); err != nil {
			return err
		}
	}
	if w.PodVolume {
		return w.addVolume()
	}
	return nil
}

// Go runs f in a goroutine that Close waits for.
func (w *World) Go(f func()) { w.all.Go(f) }

// Close stops everything in the world, and returns when all of it has ended.
func (w *World) Close() {
	w.mu.Lock()
	for _, stop := range w.kubelets {
		stop()
	}
	w.mu.Unlock()
	w.stop()
	w.Cloud.Close()
	w.all.Wait()
}

// booted starts a server's kubelet, unless the server has no network or is unrelated. gone stops the kubelet.
func (w *World) booted(s sim.Server) {
	if w.SilentServers || w.others.has(s.ID) || w.others.ids == nil || len(s.Ports) == 0 {
		return
	}
	ctx, stop := context.WithCancel(w.Context)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kubelets[s.ID] = stop
	w.Go(func() { w.runKubelet(ctx, s) })
}

func (w *World) gone(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.kubelets[id]; stop != nil {
		stop()
	}
}

// inTurn is a transport that sends each call only when the test's scheduler releases it. name returns the name by which
// the scheduler knows a call.
type inTurn struct {
	world *World
	next  http.RoundTripper
	name  func(*http.Request) string
}

// RoundTrip waits until the test's scheduler releases a call, and sends it. Discovery calls do not wait.
func (t inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	if !calls.IsDiscovery(r) {
		if err := t.world.Scheduler.Await(r.Context(), t.name(r), func() string { return calls.Content(r) }); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}
