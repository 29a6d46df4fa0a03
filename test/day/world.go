package day

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
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
	ctx   context.Context
	stop  context.CancelFunc
	all   sync.WaitGroup
	began time.Time
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
	w := &World{TB: t, start: start, began: time.Now(), nodes: map[string]*nodeHealth{}, guests: map[string]*guest{}}
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
