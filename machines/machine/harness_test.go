package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

// longestUnwritten is the longest time for which drover delays the write of a change that is not urgent. It is the delay for a Machine
// without a Node.
var longestUnwritten = status.MaxDelay(&v1alpha1.Machine{})

// memory implements cluster.Cluster in memory.
type memory struct {
	cluster.Cluster
	client client.Client
	config *rest.Config
	events *events.FakeRecorder
}

func (m *memory) GetClient() client.Client                       { return m.client }
func (m *memory) GetAPIReader() client.Reader                    { return live{m.client} }
func (m *memory) GetConfig() *rest.Config                        { return m.config }
func (m *memory) GetHTTPClient() *http.Client                    { return http.DefaultClient }
func (m *memory) GetEventRecorder(string) recorder.EventRecorder { return annotated{m.events} }

// live reads from the API server and not from the cache, so its reads may fail.
type live struct{ client.Reader }

// fromServer is the key of a context whose reads come from the API server.
type fromServer struct{}

func (l live) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.Reader.Get(context.WithValue(ctx, fromServer{}, true), key, o, opts...)
}

func (l live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.Reader.List(context.WithValue(ctx, fromServer{}, true), list, opts...)
}

type annotated struct{ *events.FakeRecorder }

func (annotated) AnnotatedEventf(runtime.Object, runtime.Object, map[string]string, string, string, string, string, ...any) {
}

// bench has one Machine, an API server in memory, a fake cloud and the Machine controller. The test starts each reconcile and moves the
// clock.
type bench struct {
	t       *testing.T
	memory  *memory
	cloud   *fakeCloud
	clock   *clocktesting.FakeClock
	options machine.Options
	machine *machine.Reconciler
	key     client.ObjectKey
	patches patches
	// written counts the controller's writes. cached is the Machine as the controller's cache shows it; nil means that the cache is up
	// to date.
	written tally
	cached  *v1alpha1.Machine
	// kinds decides whether deletions are blocked. A nil kinds blocks no deletion.
	kinds machine.Kinds
	// undeletable is the error of every deletion by the controller; nil means that deletions succeed.
	undeletable error
	// failing returns the error of a call of the controller; a nil failing means that no call fails. A call is a verb (GET, LIST, CREATE,
	// PATCH, DELETE or EVICT) and the Go type of the object, separated by a space.
	failing func(call string) error
	// evicting returns the error with which the API server refuses the eviction of a pod, or nil. A nil evicting refuses no eviction.
	evicting func(pod string) error
}

func (b *bench) createSubResource(ctx context.Context, c client.Client, name string, o, sub client.Object, opts ...client.SubResourceCreateOption) error {
	if err := b.fails("EVICT", o); name == "eviction" && err != nil {
		return err
	}
	if b.evicting != nil && name == "eviction" {
		if err := b.evicting(o.GetName()); err != nil {
			return err
		}
	}
	return c.SubResource(name).Create(ctx, o, sub, opts...)
}

// readFails returns the error that a read of the controller gets. Reads from the cache do not fail.
func (b *bench) readFails(ctx context.Context, verb string, o runtime.Object) error {
	if ctx.Value(fromServer{}) == nil {
		return nil
	}
	return b.fails(verb, o)
}

// fails returns the error that a call of the controller gets; nil when the call succeeds. Calls of the test itself do not fail.
func (b *bench) fails(verb string, o runtime.Object) error {
	if b.failing == nil || !b.written.counting {
		return nil
	}
	return b.failing(fmt.Sprintf("%s %T", verb, o))
}

func (b *bench) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if err := b.readFails(ctx, "LIST", list); err != nil {
		return err
	}
	return c.List(ctx, list, opts...)
}

func (b *bench) patch(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := b.fails("PATCH", o); err != nil {
		return err
	}
	return b.patches.patch(ctx, c, o, patch, opts...)
}

func (b *bench) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	if err := b.fails("DELETE", o); err != nil {
		return err
	}
	if b.undeletable != nil {
		return b.undeletable
	}
	return c.Delete(ctx, o, opts...)
}

// patches counts the patches of each kind, and the patches that changed nothing.
type patches struct {
	count map[string]int
	idle  []string
	// before is called before each patch and may refuse it, unless before is nil.
	before func(o client.Object) error
}

func (p *patches) patch(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	if p.before != nil {
		if err := p.before(o); err != nil {
			return err
		}
	}
	before := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), before); err != nil {
		return err
	}
	if err := c.Patch(ctx, o, patch, opts...); err != nil {
		return err
	}
	after := o.DeepCopyObject().(client.Object)
	after.SetResourceVersion(before.GetResourceVersion())
	kind := fmt.Sprintf("%T", o)
	if equality.Semantic.DeepEqual(before, after) {
		p.idle = append(p.idle, kind+" "+string(data))
	}
	if p.count == nil {
		p.count = map[string]int{}
	}
	p.count[kind]++
	return nil
}

// allKinds returns a scheme with the kinds of Kubernetes and of drover, and its decoder. All benches share them, because it takes long to
// make them. The fake client stores objects in a tracker made from both. Its default store would also keep managed fields, which no test
// here reads, and would compute the names of all kinds again for each write.
var allKinds = sync.OnceValues(func() (*runtime.Scheme, runtime.Decoder) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme, serializer.NewCodecFactory(scheme).UniversalDecoder()
})

func newBench(t *testing.T, change func(*v1alpha1.Machine)) *bench {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"})
	}))
	t.Cleanup(api.Close)
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"},
		Spec:       v1alpha1.MachineSpec{Versions: v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"}},
	}
	if change != nil {
		change(m)
	}
	bare := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "s"}}
	pool := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "p"}}
	ofPool := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool-1", UID: "p1", OwnerReferences: []metav1.OwnerReference{ownedBy("MachineDeployment", pool)}}}
	scheme, decoder := allKinds()
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(clienttesting.NewObjectTracker(scheme, decoder)).WithObjects(m, bare, pool, ofPool).
		WithStatusSubresource(&v1alpha1.MachineSet{}, &v1alpha1.MachineDeployment{})
	for _, i := range scope.Indexes(newFakeCloud()) {
		builder.WithIndex(i.Object, i.Field, i.Keys)
	}
	builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	b := &bench{t: t, cloud: newFakeCloud(), clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), key: client.ObjectKeyFromObject(m)}
	b.cloud.created = b.clock.Now
	builder.WithInterceptorFuncs(b.written.count(interceptor.Funcs{
		Get: b.get, List: b.list, Create: b.createObject, Patch: b.patch, Delete: b.delete, SubResourceCreate: b.createSubResource,
	}))
	b.memory = &memory{client: builder.Build(), events: events.NewFakeRecorder(1000), config: &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}}
	b.restart()
	return b
}

// restart replaces the controller by a new one without memory, as a restart of drover does.
func (b *bench) restart() {
	source := bootstrap.New(bootstrap.Options{Control: b.memory, Target: b.memory, Clock: b.clock, APIServer: "https://127.0.0.1:1", ClusterDNS: []string{"10.96.0.10"}})
	b.start(machine.Options{Control: b.memory, Target: b.memory, Cloud: b.cloud, Bootstrap: source, Clock: b.clock, Timeouts: lifecycle.Timeouts{Join: 10 * time.Minute}, Kinds: b.kinds})
}

// start replaces the controller by a new one with the given options.
func (b *bench) start(o machine.Options) { b.options, b.machine = o, machine.New(o) }

func (b *bench) pass() ctrl.Result {
	b.t.Helper()
	b.written.counting = true
	defer func() { b.written.counting = false }()
	result, err := b.machine.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: b.key})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// shown reconciles the Machine twice. In between, it moves the clock so far that the second reconcile writes all delayed changes.
func (b *bench) shown() ctrl.Result {
	b.t.Helper()
	b.pass()
	b.wait(longestUnwritten)
	return b.pass()
}

func (b *bench) read() *v1alpha1.Machine {
	b.t.Helper()
	m := &v1alpha1.Machine{}
	if err := b.memory.client.Get(b.t.Context(), b.key, m); err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	return m
}

func ownedBy(kind string, o metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "cluster.k8s.io/v1alpha1", Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}
}

// owned makes a set without a deployment the owner of a Machine.
func owned(m *v1alpha1.Machine) {
	m.OwnerReferences = []metav1.OwnerReference{ownedBy("MachineSet", &metav1.ObjectMeta{Name: "set", UID: "s"})}
}

// deployed makes a deployment's set the owner of a Machine.
func deployed(m *v1alpha1.Machine) {
	m.OwnerReferences = []metav1.OwnerReference{ownedBy("MachineSet", &metav1.ObjectMeta{Name: "pool-1", UID: "p1"})}
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
