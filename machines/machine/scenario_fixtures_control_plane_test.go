package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/csr"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kubelet"
)

// world is a real control plane with the Machine controller, the certificate approver, and a cloud in memory. A cloud-controller-manager
// and the kubelets of the servers are simulated.
type world struct {
	*shared
	t testing.TB
}

// shared holds the parts of a world that all its subtests share.
type shared struct {
	ctx  context.Context
	log  io.Writer
	kube *kube.Cluster
	// version is the version of the API server, such as v1.37.1. The kubelets have it too.
	version  string
	client   client.Client
	cloud    *fakeCloud
	approver *csr.Reconciler
	metadata *httptest.Server

	mu       sync.Mutex
	userData map[string][]byte
	names    map[string]string
	stop     map[string]context.CancelFunc
	kubelets sync.WaitGroup
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{t: t, shared: &shared{ctx: ctx, log: t.Output(), cloud: newFakeCloud(), userData: map[string][]byte{}, names: map[string]string{}, stop: map[string]context.CancelFunc{}}}
	w.kube = kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		w.must(add(scheme))
	}
	config := *w.kube.Config
	config.QPS, config.Burst = -1, 0
	var err error
	w.client, err = client.New(&config, client.Options{Scheme: scheme})
	w.must(err)
	info, err := discovery.NewDiscoveryClientForConfigOrDie(&config).ServerVersion()
	w.must(err)
	w.version = info.GitVersion
	w.must(deploy.Apply(ctx, w.client, "crds", "policies"))
	// Evicted pods need another Node; without one, drover does not evict pods.
	w.must(w.client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}))
	mgr, err := ctrl.NewManager(&config, ctrl.Options{Scheme: scheme, Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, Metrics: server.Options{BindAddress: "0"}, Logger: zap.New(zap.UseDevMode(true), zap.WriteTo(t.Output()))})
	w.must(err)
	source := bootstrap.New(bootstrap.Options{Control: mgr, Target: mgr, ProviderIDs: w.cloud, Clock: clock.RealClock{}, StartupTaint: v1alpha1.DefaultStartupTaint})
	machines := machine.New(machine.Options{Control: mgr, Target: mgr, Cloud: w.cloud, Bootstrap: source, Clock: clock.RealClock{}, Nodes: steps.NodeOptions{Start: nodes.StartRules{Taint: v1alpha1.DefaultStartupTaint}}})
	w.approver = csr.New(csr.Options{Control: mgr, Target: mgr, Clock: clock.RealClock{}, Servers: w.cloud})
	w.must(machines.SetupWithManager(mgr))
	w.must(w.approver.SetupWithManager(mgr))
	w.metadata = httptest.NewServer(http.HandlerFunc(w.serveMetadata))
	w.cloud.onServer, w.cloud.onGone = w.born, w.died
	w.kubelets.Go(func() {
		_ = kubelet.RunCloudControllerManager(ctx, kubelet.CloudControllerOptions{Config: &config, Servers: w.cloud.existing})
	})
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		w.metadata.Close()
		w.kubelets.Wait()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// on returns the same world with the testing.TB of a subtest.
func (w *world) on(t testing.TB) *world { return &world{t: t, shared: w.shared} }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) serveMetadata(out http.ResponseWriter, in *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := in.Header.Get("X-Instance-ID")
	if strings.HasSuffix(in.URL.Path, "user_data") {
		_, _ = out.Write(w.userData[id])
		return
	}
	_ = json.NewEncoder(out).Encode(map[string]string{"uuid": id, "name": w.names[id]})
}

func (w *world) born(id, name string, userData []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.userData[id], w.names[id] = userData, name
}

// boot makes a Machine's server ACTIVE and starts its kubelet.
func (w *world) boot(m *v1alpha1.Machine) {
	var id string
	w.cloud.change(m.UID, func(s *fakeServer) { w.cloud.active(s); id = s.ID })
	ctx, cancel := context.WithCancel(w.ctx)
	w.mu.Lock()
	w.stop[id] = cancel
	w.mu.Unlock()
	w.kubelets.Go(func() {
		_ = kubelet.Run(ctx, kubelet.Options{MetadataURL: w.metadata.URL, InstanceID: id, Journal: func(line string) { _, _ = fmt.Fprintln(w.log, line) },
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "ephemeral-storage": resource.MustParse("20Gi")}})
	})
}

func (w *world) died(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.stop[id]; stop != nil {
		stop()
	}
}

func (w *world) create(name string, change func(*v1alpha1.Machine)) *v1alpha1.Machine {
	w.t.Helper()
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.MachineSpec{
			Metadata:     v1alpha1.EmbeddedMetadata{Labels: map[string]string{"team": "blue", "node-role.kubernetes.io/worker": ""}},
			Taints:       []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			Versions:     v1alpha1.MachineVersionInfo{Kubelet: strings.TrimPrefix(w.version, "v")},
			ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack","operatingSystem":"ubuntu","cloudProviderSpec":{}}`)}},
		},
	}
	if change != nil {
		change(m)
	}
	w.must(w.client.Create(w.ctx, m))
	return m
}

// until polls a Machine until ok returns true. If that does not happen, the failure shows the Machine's last status.
func (w *world) until(m *v1alpha1.Machine, what string, ok func(*v1alpha1.Machine) bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, 60*time.Second, true, func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			m.Name = ""
		} else if err != nil {
			return false, err
		}
		return ok(m), nil
	})
	if err != nil {
		status, _ := json.MarshalIndent(m.Status, "", " ")
		w.t.Fatalf("waiting until %s: %v\n%s", what, err, status)
	}
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	w.must(w.client.Get(w.ctx, types.NamespacedName{Name: name}, n))
	return n
}

func find(m *v1alpha1.Machine, name string) v1alpha1.MachineCondition {
	for _, c := range m.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return v1alpha1.MachineCondition{}
}

func isReady(m *v1alpha1.Machine) bool {
	return find(m, v1alpha1.ConditionReady).Status == corev1.ConditionTrue
}

func hasServer(m *v1alpha1.Machine) bool { return m.Spec.ProviderID != nil }

func startupTaint(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == v1alpha1.DefaultStartupTaint {
			return true
		}
	}
	return false
}
