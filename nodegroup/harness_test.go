package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// bench holds Groups and the fake API server on which Groups works.
type bench struct {
	t        testing.TB
	client   client.WithWatch
	groups   *Groups
	clock    *clocktesting.FakeClock
	recorder *events.FakeRecorder
	// patches and gets count the Patch and Get calls to the API server. Reads from caches are not counted.
	patches, gets atomic.Int32
	// lists counts the complete lists that the API server has served. firsts counts the lists that were limited to one object.
	// When unlistable is not nil, a complete list returns this error.
	lists      atomic.Int32
	firsts     atomic.Int32
	unlistable error
	// beforePatch is called before the n-th patch. When it returns an error, the API server does not receive the patch.
	beforePatch func(n int32) error
	options     Options
	// lease names the lease of the leader; empty when there is no lease.
	lease types.NamespacedName
	// While frozen is true, the watches deliver nothing. sent holds the objects that they have delivered, by kind and name.
	// stuck is the Go type of the kind whose watch alone delivers nothing, and a space; empty when each watch delivers.
	frozen bool
	stuck  string
	sent   map[string]client.Object
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func newBench(t testing.TB, w *pools.World, options ...Options) *bench {
	t.Helper()
	return newBenchWithLease(t, w, types.NamespacedName{}, options...)
}

// newBenchWithLease returns a bench whose leader holds the given lease.
func newBenchWithLease(t testing.TB, w *pools.World, lease types.NamespacedName, options ...Options) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktesting.NewFakeClock(pools.Noon), recorder: events.NewFakeRecorder(10_000), lease: lease}
	for _, o := range options {
		b.options = o
	}
	b.client = fakeclient.NewClientBuilder().WithScheme(scheme(t)).WithObjects(w.Objects()...).
		WithReturnManagedFields().
		WithInterceptorFuncs(interceptor.Funcs{Patch: b.patch, Get: b.get}).Build()
	b.options.Clock, b.options.Discovery.Cloud = b.clock, pools.OpenStack
	b.options.Reach = b.reach()
	b.groups = newGroups(parts{source: b, live: listing{b.client, b}, nodes: b.client, writer: b.client, recorder: b.recorder, options: b.options})
	b.groups.freshness.reach.AnsweredControl()
	// The stored time makes the autoscaler's last call seem recent. Otherwise Groups would read the sizes again at the next call.
	b.groups.sizes.served.Store(pools.Noon.UnixNano())
	b.watch()
	if err := b.groups.store.renew(true); err != nil {
		t.Fatal(err)
	}
	return b
}

// reach returns a reach.Watch that checks whether the API server answers.
func (b *bench) reach() *reach.Watch {
	return reach.New(reach.Options{Control: listing{b.client, b}, Clock: b.clock, Lease: b.lease})
}

// listing reads from the API server itself instead of the caches.
type listing struct {
	client.Reader
	b *bench
}

func (l listing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if len(opts) > 0 {
		l.b.firsts.Add(1)
	} else {
		l.b.lists.Add(1)
		if l.b.unlistable != nil {
			return l.b.unlistable
		}
	}
	return l.Reader.List(ctx, list, opts...)
}

func (b *bench) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	n := b.patches.Add(1)
	if b.beforePatch != nil {
		if err := b.beforePatch(n); err != nil {
			return err
		}
	}
	return c.Patch(ctx, obj, patch, opts...)
}

func (b *bench) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	b.gets.Add(1)
	return c.Get(ctx, key, obj, opts...)
}

func (b *bench) start(context.Context, func(membership.Event)) error { return nil }

// watch delivers what has changed on the API server since its previous call, as informers do.
func (b *bench) watch() {
	b.t.Helper()
	if b.frozen {
		return
	}
	now := map[string]client.Object{}
	for _, list := range []client.ObjectList{&v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}, &v1alpha1.MachineList{}, &corev1.NodeList{}} {
		if err := b.client.List(b.t.Context(), list); err != nil {
			b.t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			now[fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(object))] = object
			return nil
		}); err != nil {
			b.t.Fatal(err)
		}
	}
	if b.stuck != "" {
		isStuck := func(key string, _ client.Object) bool { return strings.HasPrefix(key, b.stuck) }
		maps.DeleteFunc(now, isStuck)
		for key, object := range b.sent {
			if isStuck(key, object) {
				now[key] = object
			}
		}
	}
	for key, object := range now {
		if old := b.sent[key]; old == nil || old.GetUID() != object.GetUID() || old.GetResourceVersion() != object.GetResourceVersion() {
			b.groups.store.inbox.put(membership.Event{Object: object})
		}
	}
	for key, object := range b.sent {
		if now[key] == nil {
			b.groups.store.inbox.put(membership.Event{Object: object, Gone: true})
		}
	}
	b.sent = now
}

// probeAll makes one probe of each kind of object, and does not advance the clock.
func (b *bench) probeAll() {
	for range membership.Kinds {
		b.probeOnce(b.t.Context())
	}
}

// probeOnce checks whether the API server answers, and whether the watches deliver what the API server has.
func (b *bench) probeOnce(ctx context.Context) {
	b.groups.options.Reach.Probe(ctx)
	b.groups.probeOnce(ctx)
}

// freeze stops the watches, as when an informer lags.
func (b *bench) freeze() { b.frozen = true }

// catchUp delivers to the cache what the API server has.
func (b *bench) catchUp() {
	b.t.Helper()
	b.watch()
	if err := b.groups.store.renew(false); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deployment(p *pools.Pool) *v1alpha1.MachineDeployment {
	b.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	if err := b.client.Get(b.t.Context(), client.ObjectKeyFromObject(p.Deployment), d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// expect fails the test unless the pool's object on the API server has the given size and removals.
func (b *bench) expect(p *pools.Pool, replicas int32, removals ...string) {
	b.t.Helper()
	d := b.deployment(p)
	var names []string
	for _, r := range d.Spec.Removals {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if *d.Spec.Replicas != replicas || !slices.Equal(names, removals) {
		b.t.Errorf("replicas are %d with removals %v, want %d with %v", *d.Spec.Replicas, names, replicas, removals)
	}
	if size, err := b.groups.TargetSize(p.ID()); err != nil || size != replicas {
		b.t.Errorf("CA-C36 the target size is %d (error %v), replicas are %d", size, err, replicas)
	}
}

func wantKind(t testing.TB, err error, want model.Kind) {
	t.Helper()
	if got := model.KindOf(err); got != want || (want == "") != (err == nil) {
		t.Errorf("the error is %v of kind %q, want kind %q", err, got, want)
	}
}
