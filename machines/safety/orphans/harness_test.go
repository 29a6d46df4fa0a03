package orphans

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/openstack"
	cloudclient "github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if started {
		on, _ := control()
		on.Stop()
	}
	os.Exit(code)
}

// control returns the real control plane that the tests use one after the other. started is true once a test has started it.
var (
	started bool
	control = sync.OnceValues(func() (*kube.Cluster, error) {
		on, err := kube.Start(context.Background(), kube.Options{})
		started = err == nil
		return on, err
	})
)

const (
	testPeriod  = 15 * time.Minute
	testCluster = "cluster-1"
	namespace   = "drover"
)

// world is an API server and a simulated cloud, with drover's OpenStack driver and a collector of orphans. Only the test moves the clock
// of the cloud and the collector.
type world struct {
	*testing.T
	client client.Client
	// written counts the writes of the collector's user, without Events.
	written func() int
	mgr     manager.Manager
	clock   *clocktesting.FakeClock
	sim     *sim.Cloud
	cloud   *openstack.Cloud
	*Collector
	// lost reports whether the lease was not renewed in time. away reports whether the API server does not answer.
	lost, away atomic.Bool
	registry   *prometheus.Registry
}

// Fresh reports whether the lease is fresh.
func (w *world) Fresh(time.Time) bool { return !w.lost.Load() }

// newWorld returns a world with a real control plane. The test must not be parallel.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	on, err := control()
	w.must(err)
	w.written = func() (n int) {
		requests, err := on.Requests()
		w.must(err)
		for _, r := range requests {
			if r.User == "drover" && r.Wrote() && r.Resource != "events" {
				n++
			}
		}
		return n
	}
	config, err := on.ConfigForUser("drover", "system:masters")
	w.must(err)
	w.fill(on.Config, config, func() {
		w.must(deploy.Apply(t.Context(), w.client, "crds"))
		w.clear()
	})
	return w
}

// clear deletes what an earlier test has left.
func (w *world) clear() {
	w.Helper()
	now := client.GracePeriodSeconds(0)
	w.must(w.client.DeleteAllOf(w.Context(), &corev1.Node{}))
	w.must(w.client.DeleteAllOf(w.Context(), &v1alpha1.Machine{}, client.InNamespace(metav1.NamespaceSystem)))
	for _, of := range []string{metav1.NamespaceDefault, namespace} {
		for _, kind := range []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Event{}} {
			w.must(w.client.DeleteAllOf(w.Context(), kind, client.InNamespace(of), now))
		}
	}
}

// newWorldInMemory returns a world with an API server in memory.
func newWorldInMemory(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	crds, err := deploy.Objects("crds")
	w.must(err)
	catalog, err := memory.NewCatalog(crds...)
	w.must(err)
	on, err := memory.New(memory.Options{Catalog: catalog, NodesUntainted: true})
	w.must(err)
	w.fill(on.Config("admin", "system:masters"), on.Config("drover"), func() {
		for _, name := range guard.CRDs {
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			crd.SetName(name)
			w.must(w.client.Create(t.Context(), crd))
		}
	})
	return w
}

// fill creates the parts of a world. define creates drover's CRDs.
func (w *world) fill(admin, drover *rest.Config, define func()) {
	w.Helper()
	w.clock = clocktesting.NewFakeClock(time.Now())
	scheme := runtime.NewScheme()
	w.must(clientgoscheme.AddToScheme(scheme))
	w.must(v1alpha1.AddToScheme(scheme))
	var err error
	w.client, err = client.New(admin, client.Options{Scheme: scheme})
	w.must(err)
	define()
	w.must(client.IgnoreAlreadyExists(w.client.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	w.mgr, err = ctrl.NewManager(drover, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Pod{}}}},
	})
	w.must(err)
	for field, keys := range map[string]func(client.Object) string{drain.IndexNode: drain.AttachmentNode, drain.IndexVolume: drain.AttachmentVolume} {
		w.must(w.mgr.GetFieldIndexer().IndexField(w.Context(), &storagev1.VolumeAttachment{}, field, func(o client.Object) []string { return []string{keys(o)} }))
	}
	// The CRDs must be older than the ends of the Machines.
	w.clock.Step(time.Minute)
	w.startCloud()
	w.begin()
}

// startCloud runs the simulated cloud and the driver. Changes that the driver reports are ignored.
func (w *world) startCloud() {
	w.Helper()
	w.sim = sim.New(sim.Config{Clock: w.clock, BootTime: time.Second, DeleteTime: time.Second, Seed: sim.SeedMetaKube})
	w.must(w.sim.Start(w.Context()))
	w.Cleanup(w.sim.Close)
	var err error
	w.cloud, err = openstack.New(openstack.Options{
		Clock: w.clock, ClusterID: testCluster, AllowedEndpoints: []string{"127.0.0.1"}, Options: spec.Options{Configured: cloudclient.Credentials{
			IdentityEndpoint: w.sim.AuthURL(), Region: sim.MetaKubeRegion, Username: sim.MetaKubeUser, Password: sim.MetaKubePassword,
			DomainName: sim.MetaKubeDomain, ProjectName: sim.MetaKubeProject,
		}},
	})
	w.must(err)
	go func() {
		for {
			select {
			case <-w.cloud.Changes():
			case <-w.Context().Done():
				return
			}
		}
	}()
	w.must(w.mgr.Add(w.cloud))
}

// begin creates a new collector, as a change of leader does. It has seen nothing.
func (w *world) begin() {
	w.Helper()
	w.registry = prometheus.NewRegistry()
	var err error
	w.Collector, err = New(Options{
		Control: w.mgr, Target: w.mgr, Cloud: w.cloud, Clock: w.clock, Period: testPeriod,
		Settings: verdict.Settings{Age: testPeriod}, MaxPerPass: 10, DrainTimeout: 2 * time.Hour,
		Namespace: namespace, Lease: w, Registry: w.registry,
		Stale: func() string {
			if w.away.Load() {
				return "the API server does not answer"
			}
			return ""
		},
	})
	w.must(err)
}

// start runs the manager. The collector runs only if it was added to the manager.
func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
	if !w.mgr.GetCache().WaitForCacheSync(ctx) {
		w.Fatal("the caches do not fill")
	}
	w.eventually("the project is listed", func() bool { return w.projects()[0].Unknown == "" })
}

// watch makes the collector see the events of Machines, but does not run the collector.
func (w *world) watch() {
	w.Helper()
	informer, err := w.mgr.GetCache().GetInformer(w.Context(), &v1alpha1.Machine{})
	w.must(err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: w.ends.observe})
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually moves the clock a second at a time until holds returns true.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 2*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		if holds() {
			return true, nil
		}
		w.clock.Step(time.Second)
		return false, nil
	})
	if err != nil {
		w.Fatalf("never came true: %s", what)
	}
}

// projects returns the projects of the cloud with their tagged resources. When the cloud returns no project, projects returns one project
// whose resources are not known.
func (w *world) projects() []cloud.Project {
	if all := w.cloud.Tagged(w.Context()); len(all) > 0 {
		return all
	}
	return []cloud.Project{{Unknown: "there is none"}}
}

// later moves the clock by a period, waits until the cloud has been listed again, and runs a round of the collector.
func (w *world) later() {
	w.Helper()
	end, lists := w.clock.Now().Add(testPeriod), w.sim.CallCount("GET /servers/detail")
	w.eventuallyIn(20*time.Second, "a period is over, and the lists have followed", func() bool {
		return !w.clock.Now().Before(end) && w.sim.CallCount("GET /servers/detail") > lists+1
	})
	w.pass(w.Context())
}

// machine creates a Machine with server, port and floating IP, and its Node.
func (w *world) machine(name string) (*v1alpha1.Machine, *corev1.Node) {
	w.Helper()
	raw, err := json.Marshal(map[string]any{"cloudProvider": "openstack", "operatingSystem": "ubuntu", "cloudProviderSpec": map[string]any{
		"availabilityZone": sim.MetaKubeZone, "flavor": sim.MetaKubeFlavor, "image": sim.MetaKubeImage, "network": sim.MetaKubeNetwork,
		"region": sim.MetaKubeRegion, "securityGroups": []string{sim.MetaKubeSecurityGroup}, "subnet": sim.MetaKubeSubnet, "floatingIpPool": sim.MetaKubePool,
	}})
	w.must(err)
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
	m.Spec.Versions.Kubelet, m.Spec.ProviderSpec.Value = "1.37.1", &runtime.RawExtension{Raw: raw}
	w.must(w.client.Create(w.Context(), m))
	return m, w.node(m, w.server(m))
}

// server creates the resources of a Machine in the cloud.
func (w *world) server(m *v1alpha1.Machine) (made *cloud.Server) {
	w.Helper()
	i, err := w.cloud.Instance(w.Context(), m)
	w.must(err)
	w.eventually("it has a server", func() bool {
		if err := i.Prepare(w.Context()); err != nil {
			return false
		}
		made, err = i.EnsureServer(w.Context(), []byte("#cloud-config\n"))
		return err == nil && made != nil && made.ProviderID != ""
	})
	return made
}

// node creates the Ready Node of a Machine, with drover's labels.
func (w *world) node(m *v1alpha1.Machine, made *cloud.Server) *corev1.Node {
	w.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, Labels: map[string]string{v1alpha1.LabelOwnedBy: string(m.UID)},
		Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: m.Namespace + "/" + m.Name},
	}}
	n.Spec.ProviderID = made.ProviderID
	w.must(w.client.Create(w.Context(), n))
	w.ready(n, corev1.ConditionTrue)
	return n
}

// ready sets the Ready condition of a Node, and waits until the cache shows it.
func (w *world) ready(n *corev1.Node, status corev1.ConditionStatus) {
	w.Helper()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	w.must(w.client.Status().Update(w.Context(), n))
	w.cached(n)
}

// cached waits until the cache shows the present state of the Node.
func (w *world) cached(n *corev1.Node) {
	w.Helper()
	w.eventually("the cache has the Node", func() bool {
		var now corev1.Node
		return w.mgr.GetClient().Get(w.Context(), client.ObjectKeyFromObject(n), &now) == nil && now.ResourceVersion == n.ResourceVersion
	})
}

// remove deletes a Machine, which has no finalizers, and waits until the collector has seen the deletion.
func (w *world) remove(m *v1alpha1.Machine) {
	w.Helper()
	w.must(w.client.Delete(w.Context(), m))
	w.eventually("its end was observed", func() bool { return w.isEnd(m) })
}

// isEnd reports whether the collector knows the end of a Machine.
func (w *world) isEnd(m *v1alpha1.Machine) bool {
	_, known := w.ends.known()[m.UID]
	return known
}

// removeUnseen deletes a Machine while no drover runs. The collector that begins then has not seen the end.
func (w *world) removeUnseen(m *v1alpha1.Machine) {
	w.Helper()
	w.begin()
	w.must(w.client.Delete(w.Context(), m))
	w.eventually("the cache lacks the Machine", func() bool {
		return apierrors.IsNotFound(w.mgr.GetClient().Get(w.Context(), client.ObjectKeyFromObject(m), m.DeepCopy()))
	})
	w.watch()
}

// confirm sets the annotation by which a person confirms the deletion of orphans.
func (w *world) confirm(words string) {
	w.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCollect, words)
	w.must(w.client.Patch(w.Context(), w.configMap(), client.RawPatch(types.MergePatchType, patch)))
}

// counts returns the numbers of servers, floating IPs and ports.
func (w *world) counts() [3]int {
	left := w.sim.Leftovers()
	return [3]int{len(left.Servers), len(left.FloatingIPs), len(left.Ports)}
}

// metric returns the value of a gauge or counter with the given label value.
func (w *world) metric(name, label string) float64 {
	w.Helper()
	families, err := w.registry.Gather()
	w.must(err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// stored returns the ConfigMap with the findings.
func (w *world) stored() *corev1.ConfigMap {
	w.Helper()
	stored := w.configMap()
	w.must(client.IgnoreNotFound(w.client.Get(w.Context(), client.ObjectKeyFromObject(stored), stored)))
	return stored
}

// shown returns the report.
func (w *world) shown() string {
	w.Helper()
	return w.stored().Data[reportKey]
}

// inOrder runs a subtest that continues the subtests before it. When -run selects only a later subtest, the earlier ones run as parts
// of the test itself, so that each subtest can be run alone.
func inOrder(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	ran := false
	t.Run(name, func(t *testing.T) {
		ran = true
		test(t)
	})
	if !ran {
		test(t)
	}
}
