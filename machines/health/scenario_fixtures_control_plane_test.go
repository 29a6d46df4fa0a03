package health_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/health"
	"github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
)

func init() { ctrl.SetLogger(logr.Discard()) }

// world is an API server with the controllers of deployments and sets. The controller actor takes the place of the Machine
// controller, the cloud and the kubelets. The test itself starts each round of the health controller, and moves the controller's
// clock.
type world struct {
	*testing.T
	client client.Client
	mgr    ctrl.Manager
	clock  *testclock.FakePassiveClock
	health *health.Reconciler
	// requests returns the requests that the API server has answered. requests is nil for an API server in memory.
	requests func() ([]kube.Request, error)
}

// actor is a controller that creates a Node for each Machine, and deletes the Node and the finalizers of a deleted Machine.
type actor struct{ client client.Client }

func (a actor) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Machine{}
	if err := a.client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !m.DeletionTimestamp.IsZero() && m.Annotations["test/drains"] != "":
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case !m.DeletionTimestamp.IsZero():
		err := a.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}})
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	case m.Status.NodeRef == nil:
		return ctrl.Result{}, a.join(ctx, m)
	}
	return ctrl.Result{}, nil
}

func (a actor) join(ctx context.Context, m *v1alpha1.Machine) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{v1alpha1.LabelOwnedBy: string(m.UID)}}}
	if err := a.client.Create(ctx, node); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	if err := a.client.Status().Update(ctx, node); err != nil {
		return err
	}
	return client.IgnoreNotFound(a.patch(ctx, m, map[string]any{
		"metadata": map[string]any{"uid": m.UID, "finalizers": []string{v1alpha1.FinalizerServer}},
		"status": map[string]any{
			"phase": v1alpha1.PhaseRunning, "nodeRef": corev1.ObjectReference{Kind: "Node", Name: m.Name, UID: node.UID},
			"conditions": []v1alpha1.MachineCondition{
				{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: &now},
				{Type: v1alpha1.ConditionServerReady, Status: corev1.ConditionTrue, Reason: "ServerActive", LastTransitionTime: &now},
			},
		},
	}))
}

func (a actor) patch(ctx context.Context, m *v1alpha1.Machine, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return a.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body), client.FieldOwner("actor"))
}

// newWorld returns a world with a real control plane.
func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{})
	config := rest.CopyConfig(cluster.Config)
	config.QPS, config.Burst = -1, 0
	direct, err := client.New(config, client.Options{})
	if err == nil {
		err = deploy.Apply(t.Context(), direct, "crds")
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldAt(t, config)
	w.requests = cluster.Requests
	return w
}

// newWorldInMemory returns a world with an API server in memory.
func newWorldInMemory(t *testing.T, setups ...func(ctrl.Manager) error) *world {
	t.Helper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	server, err := memory.New(memory.Options{Catalog: catalog, NodesUntainted: true})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldAt(t, server.Config("drover"), setups...)
}

func newWorldAt(t *testing.T, config *rest.Config, setups ...func(ctrl.Manager) error) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	w := &world{T: t, clock: testclock.NewFakePassiveClock(time.Now())}
	w.must(clientgoscheme.AddToScheme(scheme))
	w.must(v1alpha1.AddToScheme(scheme))
	var err error
	w.client, err = client.New(config, client.Options{Scheme: scheme})
	w.must(err)
	w.mgr, err = ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	w.must(err)
	now := clock.RealClock{}
	for _, setup := range append(setups,
		set.New(set.Options{Control: w.mgr, Clock: now, Suffix: func() string { return rand.String(5) }}).SetupWithManager,
		deployment.New(deployment.Options{Control: w.mgr, Target: w.mgr, Clock: now}).SetupWithManager,
		func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).For(&v1alpha1.Machine{}).Named("actor").WithOptions(controller.Options{MaxConcurrentReconciles: 8}).Complete(actor{w.client})
		},
	) {
		w.must(setup(w.mgr))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, kind := range []client.Object{&corev1.Node{}, &v1alpha1.Machine{}, &v1alpha1.MachineSet{}, &v1alpha1.MachineDeployment{}} {
		_, err := w.mgr.GetCache().GetInformer(t.Context(), kind)
		w.must(err)
	}
	if !w.mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches do not fill")
	}
	w.health = w.leader(nil)
	return w
}

// settings returns the settings of the health controller in the tests.
func settings(timeout time.Duration) verdict.Settings {
	return verdict.Settings{Timeout: timeout, StartTimeout: 30 * time.Minute, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: 40, Join: 10 * time.Minute}
}

// leader returns a new health controller without memory, as after a change of leader. change, unless nil, changes its options.
func (w *world) leader(change func(*health.Options)) *health.Reconciler {
	w.Helper()
	o := health.Options{Control: w.mgr, Target: w.mgr, Clock: w.clock, Settings: settings(10 * time.Minute)}
	if change != nil {
		change(&o)
	}
	r, err := health.New(o)
	w.must(err)
	return r
}

// handle is a cluster.Cluster whose cached client is replaced by client.
type handle struct {
	cluster.Cluster
	client client.Client
}

func (h handle) GetClient() client.Client { return h.client }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// later moves the clock and then runs a round, with caches that show what is stored.
func (w *world) later(d time.Duration) ctrl.Result {
	w.Helper()
	w.cachesFollow()
	w.clock.SetTime(w.clock.Now().Add(d))
	result, err := w.health.Reconcile(w.Context(), ctrl.Request{})
	w.must(err)
	return result
}

// cachesFollow waits until the cache shows all Machines, sets and deployments as they are stored.
func (w *world) cachesFollow() {
	w.Helper()
	for _, kind := range []string{"MachineList", "MachineSetList", "MachineDeploymentList"} {
		w.eventually("the cache shows what is stored: "+kind, func() (string, bool) {
			stored, cached := w.versions(w.client, kind), w.versions(w.mgr.GetClient(), kind)
			return fmt.Sprintf("%v, stored: %v", cached, stored), maps.Equal(stored, cached)
		})
	}
}

// versions returns the resource versions of all objects of a kind, by UID.
func (w *world) versions(from client.Reader, kind string) map[types.UID]string {
	w.Helper()
	list, err := w.mgr.GetScheme().New(v1alpha1.GroupVersion.WithKind(kind))
	w.must(err)
	w.must(from.List(w.Context(), list.(client.ObjectList)))
	versions := map[types.UID]string{}
	w.must(meta.EachListItem(list, func(o runtime.Object) error {
		versions[o.(client.Object).GetUID()] = o.(client.Object).GetResourceVersion()
		return nil
	}))
	return versions
}

// eventually waits until see returns true. The text that see returns is shown in the error message.
func (w *world) eventually(what string, see func() (string, bool)) {
	w.Helper()
	var last string
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		var ok bool
		last, ok = see()
		return ok, nil
	})
	if err != nil {
		w.Fatalf("waiting until %s: %v; last seen: %s", what, err, last)
	}
}

// group creates a MachineDeployment, and waits until the cache shows all its Machines with their Nodes.
func (w *world) group(name string, size int32) []string {
	w.Helper()
	labels := map[string]string{"group": name}
	w.must(w.client.Create(w.Context(), &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: &size, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: labels}, Spec: v1alpha1.MachineSpec{
				ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"}}`)}},
			}},
		},
	}))
	return w.settled(name, int(size))
}

// settled waits until the cache shows that size Machines of a group are Running and not being deleted, and returns their
// names.
func (w *world) settled(name string, size int) (names []string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s has %d Machines", name, size), func() (string, bool) {
		names = nil
		for _, m := range w.machines(name) {
			var node corev1.Node
			if err := w.mgr.GetClient().Get(w.Context(), types.NamespacedName{Name: m.Name}, &node); err == nil && m.Status.NodeRef != nil && m.DeletionTimestamp == nil && len(node.Status.Conditions) > 0 {
				names = append(names, m.Name)
			}
		}
		slices.Sort(names)
		return fmt.Sprint(names), len(names) == size
	})
	return names
}

// machines returns the Machines of a group in the cache.
func (w *world) machines(name string) []v1alpha1.Machine {
	w.Helper()
	var list v1alpha1.MachineList
	w.must(w.mgr.GetClient().List(w.Context(), &list, client.MatchingLabels{"group": name}))
	return list.Items
}

// report sets condition Ready of Nodes, with a transition at the time of the health controller's clock, and waits until the
// cache shows it.
func (w *world) report(status corev1.ConditionStatus, nodes ...string) {
	w.Helper()
	for _, name := range nodes {
		node := &corev1.Node{}
		w.must(w.client.Get(w.Context(), types.NamespacedName{Name: name}, node))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(w.clock.Now())}}
		w.must(w.client.Status().Update(w.Context(), node))
		w.eventually("the cache shows Node "+name, func() (string, bool) {
			var cached corev1.Node
			w.must(w.mgr.GetClient().Get(w.Context(), types.NamespacedName{Name: name}, &cached))
			return cached.ResourceVersion, cached.ResourceVersion == node.ResourceVersion
		})
	}
}

// healthy returns the stored condition Healthy of a Machine.
func (w *world) healthy(name string) v1alpha1.MachineCondition {
	w.Helper()
	m := &v1alpha1.Machine{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, m))
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionHealthy {
			return c
		}
	}
	return v1alpha1.MachineCondition{}
}

// leaving returns the given names whose Machines are being deleted or are gone.
func (w *world) leaving(names []string) (gone []string) {
	w.Helper()
	for _, name := range names {
		m := &v1alpha1.Machine{}
		err := w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, m)
		w.must(client.IgnoreNotFound(err))
		if err != nil || m.DeletionTimestamp != nil {
			gone = append(gone, name)
		}
	}
	return gone
}

// replaces expects that the Machines of a group that are being deleted or gone are those in want. A round that meets a Conflict, because
// another controller wrote the deployment, leaves its work to a later round.
func (w *world) replaces(names, want []string) {
	w.Helper()
	gone := w.leaving(names)
	for range 80 { // a deletion of a new leader whose record met a Conflict is repeated after a minute
		if slices.Equal(gone, want) {
			return
		}
		w.later(time.Second)
		gone = w.leaving(names)
	}
	w.Fatalf("%v are gone, want %v", gone, want)
}

// deployment returns a MachineDeployment from the API server.
func (w *world) deployment(name string) *v1alpha1.MachineDeployment {
	w.Helper()
	d := &v1alpha1.MachineDeployment{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, d))
	return d
}

// recorded returns the names of the Machines that the status of a deployment records as being replaced.
func recorded(d *v1alpha1.MachineDeployment) string {
	var names []string
	for _, e := range d.Status.HealthReplacements {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}
