package autoscaler

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	apiserver "github.com/drover-project/drover/test/kube/memory"
)

var (
	kinds   = runtime.NewScheme()
	catalog *apiserver.Catalog
	// mapper maps all kinds to their resources. All clients share it.
	mapper meta.RESTMapper
)

func TestMain(m *testing.M) {
	// The scenarios create much garbage and keep little memory, so fewer garbage collections save time.
	debug.SetGCPercent(1000)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	if err := clientgoscheme.AddToScheme(kinds); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		return err
	}
	mapper = newMapper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		return err
	}
	catalog, err = apiserver.NewCatalog(crds...)
	return err
}

const (
	namespace = metav1.NamespaceSystem
	labelPool = "pool"
)

// world is a cluster with pods and machines, drover with its real node groups and its real deployment and set controllers, and the
// client. It runs in virtual time. The Machine controller and the cloud are replaced with a model of what the client can see of them.
type world struct {
	*testing.T
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup
	kube  *apiserver.Server
	admin client.Client
	seen  cache.Cache
	// tick is the interval of steps. In each step the models of the cloud, of the controllers and of the pods advance.
	tick time.Duration

	wire          *wire
	drovers       []*drover
	client        *process
	clientOptions Options

	// controller is the cloud-controller-manager. With startsEarly the Machine controller removes the startup taint of a Ready
	// Node that the cloud-controller-manager has not initialized, as drover once did (F-47).
	controller  cloudController
	startsEarly bool

	pools    []*pool
	machines map[string]*machine
	serial   int
	checker  checker
}

// inWorld runs a scenario in virtual time, in parallel with others.
func inWorld(t *testing.T, scenario func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			T: t, tick: 2 * time.Second, machines: map[string]*machine{}, wire: newWire(),
			controller: cloudController{delay: time.Second},
		}
		w.clientOptions.NoFrequentLoops = true
		w.ctx, w.stop = context.WithCancel(context.Background())
		defer w.close()
		w.setUp()
		scenario(w)
	})
}

// setUp creates the API server, the test's own client and the test's own caches.
func (w *world) setUp() {
	var err error
	w.kube, err = apiserver.New(apiserver.Options{Catalog: catalog, CollectAfter: time.Second, Lag: w.wire.lag})
	w.must(err)
	w.admin, err = client.New(w.kube.Config("admin", "system:masters"), client.Options{Scheme: kinds, Mapper: mapper})
	w.must(err)
	w.seen, err = cache.New(w.kube.Config("admin", "system:masters"), cache.Options{Scheme: kinds, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields()})
	w.must(err)
	w.work.Go(func() { _ = w.seen.Start(w.ctx) })
	w.seen.WaitForCacheSync(w.ctx)
	for _, list := range []client.ObjectList{&v1alpha1.MachineList{}, &v1alpha1.MachineDeploymentList{}, &corev1.NodeList{}, &corev1.PodList{}} {
		w.must(w.seen.List(w.ctx, list))
	}
}

func newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range kinds.AllKnownTypes() {
		var scope meta.RESTScope = meta.RESTScopeNamespace
		if gvk.Kind == "Node" || gvk.Kind == "Namespace" {
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	return m
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) close() {
	w.endClient()
	for _, d := range w.drovers {
		d.end()
	}
	w.stop()
	w.work.Wait()
}

// process is a replica of drover or the client, which runs until end is called.
type process struct {
	stop context.CancelFunc
	done chan struct{}
}

func (w *world) process(run func(ctx context.Context)) *process {
	ctx, stop := context.WithCancel(w.ctx)
	p := &process{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		run(ctx)
	}()
	return p
}

func (p *process) end() {
	p.stop()
	<-p.done
}

// startClient starts the client, with cluster-autoscaler's defaults for all times that the scenario has not set in clientOptions.
func (w *world) startClient() {
	o := w.clientOptions
	k, err := kubernetes.NewForConfig(w.kube.Config("autoscaler"))
	w.must(err)
	o.Provider, o.Client, o.Log, o.StartupTaints = proto.NewCloudProviderClient(w.wire), k, w.log(), []string{startupTaint}
	w.client = w.process(func(ctx context.Context) {
		// The client's loops run between the steps of the world, not at the same time.
		time.Sleep(w.tick / 2)
		a, err := New(ctx, o)
		if err != nil {
			return
		}
		_ = a.Run(ctx)
	})
}

func (w *world) endClient() {
	if w.client != nil {
		w.client.end()
		w.client = nil
	}
}

// restartClient restarts the client, which loses its memory.
func (w *world) restartClient() {
	w.endClient()
	w.startClient()
}

// run takes steps until the virtual time d has passed.
func (w *world) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.step(w.paceFor(d))
	}
}

// paceFor returns the interval of steps while the scenario waits for d. It is longer for long waits, which saves work.
func (w *world) paceFor(d time.Duration) time.Duration {
	if d >= 20*time.Minute {
		return 5 * w.tick
	}
	return w.tick
}

// until takes steps until the function so returns true. It fails the test if that does not happen within limit.
func (w *world) until(limit time.Duration, what string, so func() bool) {
	w.Helper()
	for end := time.Now().Add(limit); !so(); w.step(w.paceFor(limit)) {
		if time.Now().After(end) {
			w.Fatalf("not reached within %v: %s\n%s", limit, what, w.describe())
		}
	}
}

// shared makes a list return the cached objects themselves, not copies. The test replaces fields of listed objects, and
// never changes what a field points to.
const shared = client.UnsafeDisableDeepCopy

// step advances virtual time, and then makes everything besides drover and its client act once.
func (w *world) step(pace time.Duration) {
	time.Sleep(pace)
	synctest.Wait()
	machines, nodes, pods := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{machines, nodes, pods} {
		w.must(w.seen.List(w.ctx, list, shared))
	}
	w.stepMachines(machines.Items, nodes.Items, pods.Items)
	w.stepPods(nodes.Items, pods.Items)
	w.checker.peak = max(w.checker.peak, w.total())
}
