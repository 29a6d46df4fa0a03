package orphans

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/guard"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
	"github.com/drover-project/drover/test/kube/memory"
)

// priorities are the priorities of the pods on the Node. The first pod is evicted and removed before the second one is
// evicted.
var priorities = []int32{0, 2_000_001_000}

// oneServer is a cloud with one project and one server. It implements the calls that the collector makes.
type oneServer struct {
	cloud.Cloud
	server  cloud.Resource
	deleted atomic.Bool
	// adopted reports whether the server has another Machine now. unknown reports whether a list has failed.
	adopted, unknown atomic.Bool
}

func (c *oneServer) Tagged(context.Context) []cloud.Project {
	p := cloud.Project{Name: "p", Place: "p"}
	if !c.deleted.Load() {
		p.Resources = []cloud.Resource{c.server}
	}
	if c.adopted.Load() {
		p.Resources[0].Machine = "stays"
	}
	if c.unknown.Load() {
		p.Unknown = "the last list failed"
	}
	return []cloud.Project{p}
}

func (c *oneServer) Collect(context.Context, cloud.Resource) error { c.deleted.Store(true); return nil }

func (c *oneServer) Remembered(*v1alpha1.Machine) cloud.Remembered { return cloud.Remembered{} }

func (c *oneServer) ServerID(providerID string) cloud.ServerID { return cloud.ServerID(providerID) }

// bubble is a cluster in memory, in virtual time. It has two Machines: one stays; the other is gone and has left a server
// with a Node, whose pods terminate one after the other.
type bubble struct {
	*testing.T
	admin client.Client
	cloud *oneServer
	began time.Time
	// lists is the number of lists of Machines. calls is the number of all calls except watches and calls for Events.
	lists, calls atomic.Int64
}

// count counts calls and forwards them.
func (b *bubble) count(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if !r.URL.Query().Has("watch") && !strings.Contains(r.URL.Path, "/events") {
			b.calls.Add(1)
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/machines") {
				b.lists.Add(1)
			}
		}
		return next.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip makes a call.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// inBubble runs a scenario in virtual time. The scenario starts after the first round, when the Machine gone has been deleted.
func inBubble(t *testing.T, timeout time.Duration, scenario func(b *bubble)) {
	t.Helper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, began: time.Now()}
		stop := b.start(catalog, timeout)
		defer stop()
		time.Sleep(testPeriod + time.Second)
		b.must(b.admin.Delete(t.Context(), b.machine("gone")))
		scenario(b)
	})
}

func (b *bubble) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bubble) machine(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// start fills the cluster and runs the collector. The Node's kubelet terminates its pods.
func (b *bubble) start(catalog *memory.Catalog, timeout time.Duration) (stop func()) {
	scheme := runtime.NewScheme()
	b.must(clientgoscheme.AddToScheme(scheme))
	b.must(v1alpha1.AddToScheme(scheme))
	kube, err := memory.New(memory.Options{Catalog: catalog, NodesUntainted: true})
	b.must(err)
	b.admin, err = client.New(kube.Config("admin", "system:masters"), client.Options{Scheme: scheme})
	b.must(err)
	b.fill()
	mgr, err := ctrl.NewManager(kube.ConfigOver(b.count(kube.RoundTripper("drover"))), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: new(true)},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Pod{}}}},
	})
	b.must(err)
	for field, keys := range map[string]func(client.Object) string{drain.IndexNode: drain.AttachmentNode, drain.IndexVolume: drain.AttachmentVolume} {
		b.must(mgr.GetFieldIndexer().IndexField(b.Context(), &storagev1.VolumeAttachment{}, field, func(o client.Object) []string { return []string{keys(o)} }))
	}
	c, err := New(Options{
		Control: mgr, Target: mgr, Cloud: b.cloud, Clock: clock.RealClock{}, Period: testPeriod,
		Settings: verdict.Settings{Age: testPeriod}, MaxPerPass: 10, DrainTimeout: timeout, Namespace: "default",
		Stale: func() string { return "" }, Registry: prometheus.NewRegistry(),
	})
	b.must(err)
	b.must(c.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var kubelet sync.WaitGroup
	kubelet.Go(func() { b.endPods(ctx) })
	return func() {
		cancel()
		b.must(<-ended)
		kubelet.Wait()
	}
}

// fill creates the Machines, the CRDs, and the Node with its pods.
func (b *bubble) fill() {
	for _, name := range guard.CRDs {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		crd.SetName(name)
		b.must(b.admin.Create(b.Context(), crd))
	}
	b.must(b.admin.Create(b.Context(), b.machine("stays")))
	gone := b.machine("gone")
	b.must(b.admin.Create(b.Context(), gone))
	b.cloud = &oneServer{server: cloud.Resource{
		Kind: cloud.ResourceServer, ID: "s", Key: "s", Name: "gone", Machine: gone.UID, Place: "p",
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone", Labels: map[string]string{v1alpha1.LabelOwnedBy: string(gone.UID)}}, Spec: corev1.NodeSpec{ProviderID: "s"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(b.began)}}
	b.must(b.admin.Create(b.Context(), node))
	for n, priority := range priorities {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", n)}}
		pod.Spec = corev1.PodSpec{NodeName: "gone", Priority: &priority, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		b.must(b.admin.Create(b.Context(), pod))
		pod.Status.Phase = corev1.PodRunning
		b.must(b.admin.Status().Update(b.Context(), pod))
	}
}

// endPods acts as the kubelet: it removes the pods that are being deleted, every 30 s.
func (b *bubble) endPods(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(30 * time.Second)
		var pods corev1.PodList
		if err := b.admin.List(ctx, &pods); err != nil {
			return
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp != nil {
				_ = b.admin.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
			}
		}
	}
}

// at advances the virtual clock to one second past the given time since the start of the test.
func (b *bubble) at(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d + time.Second)))
	synctest.Wait()
}

// pods returns how many pods are left, and how many of them are being deleted.
func (b *bubble) pods() (left, leaving int) {
	b.Helper()
	var pods corev1.PodList
	b.must(b.admin.List(b.Context(), &pods))
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			leaving++
		}
	}
	return len(pods.Items), leaving
}

// The rounds run 15, 30, 45 and 60 minutes after the start. The third one starts the drain.
func TestTheDrainOfAnOrphansNodeBetweenTwoRoundsOfTheOrphanCheck(t *testing.T) {
	t.Run("a drain continues every 20 s without listing Machines, and the next round deletes the server (MCM-81)", func(t *testing.T) {
		inBubble(t, time.Hour, func(b *bubble) {
			b.at(3 * testPeriod)
			if left, leaving := b.pods(); left != 2 || leaving != 1 {
				t.Fatalf("%d pods are left and %d leave after the first round", left, leaving)
			}
			lists, calls := b.lists.Load(), b.calls.Load()
			b.at(3*testPeriod + 3*time.Minute)
			if left, _ := b.pods(); left != 0 {
				t.Errorf("%d pods are left after three minutes", left)
			}
			drained := b.calls.Load()
			b.at(4*testPeriod - 2*time.Second)
			if b.cloud.deleted.Load() || b.lists.Load() != lists || b.calls.Load() != drained || drained-calls > 40 {
				t.Errorf("between two rounds: deleted %v, %d lists of Machines, %d calls for the drain, %d after it",
					b.cloud.deleted.Load(), b.lists.Load()-lists, drained-calls, b.calls.Load()-drained)
			}
			b.at(4 * testPeriod)
			if !b.cloud.deleted.Load() {
				t.Error("the round after the drain does not delete the server")
			}
		})
	})
	t.Run("a drain that a PodDisruptionBudget blocks ends at the drain timeout, and the next round deletes the server (MCM-81)", func(t *testing.T) {
		inBubble(t, 5*time.Minute, func(b *bubble) {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never"}}
			budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{}}
			b.must(b.admin.Create(b.Context(), budget))
			budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DesiredHealthy: 2, CurrentHealthy: 2, ExpectedPods: 2}
			b.must(b.admin.Status().Update(b.Context(), budget))
			b.at(3*testPeriod + 6*time.Minute)
			over := b.calls.Load()
			b.at(4*testPeriod - 2*time.Second)
			if left, leaving := b.pods(); left != 2 || leaving != 0 || b.calls.Load() != over || b.cloud.deleted.Load() {
				t.Errorf("%d pods are left, %d leave, %d calls after the timeout, deleted %v", left, leaving, b.calls.Load()-over, b.cloud.deleted.Load())
			}
			b.at(4 * testPeriod)
			if !b.cloud.deleted.Load() {
				t.Error("the round after the timeout does not delete the server")
			}
		})
	})
	t.Run("a drain ends when its Node is gone, and the next round deletes the server (MCM-81)", func(t *testing.T) {
		inBubble(t, time.Hour, func(b *bubble) {
			b.at(3 * testPeriod)
			b.must(b.admin.Delete(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}))
			b.at(3*testPeriod + time.Minute)
			calls := b.calls.Load()
			b.at(4*testPeriod - 2*time.Second)
			if b.cloud.deleted.Load() || b.calls.Load() != calls {
				t.Errorf("between two rounds: deleted %v, %d calls", b.cloud.deleted.Load(), b.calls.Load()-calls)
			}
			b.at(4 * testPeriod)
			if !b.cloud.deleted.Load() {
				t.Error("the next round does not delete the server")
			}
		})
	})
	makes := func(name, providerID string) func(*bubble) {
		return func(b *bubble) {
			m := b.machine(name)
			if providerID != "" {
				m.Spec.ProviderID = &providerID
			}
			b.must(b.admin.Create(b.Context(), m))
		}
	}
	for name, change := range map[string]func(b *bubble){
		"a drain stops when another Machine has adopted the server (MCM-83)":            func(b *bubble) { b.cloud.adopted.Store(true) },
		"a drain stops while the lists of the server's project are incomplete (MCM-80)": func(b *bubble) { b.cloud.unknown.Store(true) },
		"a drain stops when a new Machine has the server's provider ID (MCM-83)":        makes("adopts", "s"),
		"a drain stops when a new Machine has the server's name (MCM-83)":               makes("gone", ""),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, time.Hour, func(b *bubble) {
				b.at(3 * testPeriod)
				change(b)
				b.at(4*testPeriod - 2*time.Second)
				if left, leaving := b.pods(); left != 1 || leaving != 0 {
					t.Errorf("%d pods are left and %d leave, want the second one to stay", left, leaving)
				}
			})
		})
	}
}
