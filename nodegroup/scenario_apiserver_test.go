package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
	"github.com/drover-project/drover/test/pools"
)

// lossy is a RoundTripper that can drop the answers to the next requests that change a MachineDeployment, and can run a function
// before each such request is sent.
type lossy struct {
	http.RoundTripper
	lose   atomic.Int32
	before atomic.Pointer[func()]
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	changes := r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/machinedeployments/")
	if before := l.before.Load(); before != nil && changes {
		(*before)()
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && changes && l.lose.Add(-1) >= 0 {
		_ = resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, err
}

// site is an API server with drover's kinds, and Groups that follow its objects.
type site struct {
	t      testing.TB
	client client.Client
	groups *Groups
	lossy  *lossy
}

// newSite returns a site with a real API server.
func newSite(t testing.TB) *site {
	t.Helper()
	control := kube.ForTest(t, kube.Options{}).Config
	direct, err := client.New(control, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), direct, "crds"); err != nil {
		t.Fatal(err)
	}
	return newSiteAt(t, control)
}

// newSiteInMemory returns a site with an API server in memory.
func newSiteInMemory(t testing.TB) *site {
	t.Helper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	control, err := memory.New(memory.Options{Catalog: catalog, NodesUntainted: true})
	if err != nil {
		t.Fatal(err)
	}
	return newSiteAt(t, control.Config("drover"))
}

func newSiteAt(t testing.TB, control *rest.Config) *site {
	t.Helper()
	s := &site{t: t, lossy: &lossy{}}
	var err error
	s.client, err = client.New(control, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(control)
	config.QPS, config.Burst = -1, 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		s.lossy.RoundTripper = next
		return s.lossy
	})
	handle, err := cluster.New(config, func(o *cluster.Options) { o.Scheme = scheme(t) })
	if err != nil {
		t.Fatal(err)
	}
	s.groups = New(Options{Control: handle, Target: handle, Discovery: model.Discovery{Cloud: pools.OpenStack}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := handle.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := s.groups.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	<-s.groups.Synced()
	return s
}

// sized creates a deployment with bounds and the given size.
func (s *site) sized(name string, size int32) *v1alpha1.MachineDeployment {
	s.t.Helper()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: "0", v1alpha1.AnnotationsMaxSize[0]: "1000"}
	labels := map[string]string{"pool": name}
	d.Spec.Replicas = &size
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	s.create(d)
	return d
}

// pool creates a deployment of the given size, with a set and Machines with nodes. It waits until Groups has all
// of these.
func (s *site) pool(name string, size int32) []membership.Node {
	s.t.Helper()
	d := s.sized(name, size)
	labels := d.Spec.Selector.MatchLabels
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name + "-1"}}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}
	set.Spec.Selector.MatchLabels, set.Spec.Template.Metadata.Labels = labels, labels
	s.create(set)
	var nodes []membership.Node
	for i := range size {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: labels}}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)}
		m.Spec.ProviderID = ptr.To(pools.ProviderID(m.Name))
		s.create(m)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: corev1.NodeSpec{ProviderID: *m.Spec.ProviderID}}
		s.create(n)
		nodes = append(nodes, membership.Node{Name: n.Name, ProviderID: n.Spec.ProviderID})
	}
	s.eventually("the group is known with all its nodes", func() bool {
		if s.groups.Refresh(s.t.Context()) != nil {
			return false
		}
		list, err := s.groups.Instances(membership.ID(d.Namespace, name))
		return err == nil && int32(len(list)) == size && !slices.ContainsFunc(list, func(i model.Instance) bool { return i.State != model.Running })
	})
	return nodes
}

func (s *site) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) eventually(what string, is func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		s.t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (s *site) expect(name string, replicas int32, removals int) *v1alpha1.MachineDeployment {
	s.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, d); err != nil {
		s.t.Fatal(err)
	}
	if *d.Spec.Replicas != replicas || len(d.Spec.Removals) != removals {
		s.t.Errorf("replicas are %d with %d removals, want %d with %d", *d.Spec.Replicas, len(d.Spec.Removals), replicas, removals)
	}
	if size, err := s.groups.TargetSize(membership.ID(d.Namespace, name)); err != nil || size != replicas {
		s.t.Errorf("CA-C36 the target size is %d (error %v), replicas are %d", size, err, replicas)
	}
	return d
}

func TestChangesOfAGroupOnARealAPIServer(t *testing.T) {
	s := newSite(t)
	t.Run("ten parallel calls of DeleteNodes remove exactly the ten named Machines (CA-C66)", func(t *testing.T) {
		nodes := s.pool("ten", 12)
		id := membership.ID(metav1.NamespaceSystem, "ten")
		var calls sync.WaitGroup
		for _, n := range nodes[:10] {
			calls.Go(func() {
				if err := s.groups.DeleteNodes(t.Context(), id, []membership.Node{n}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		d := s.expect("ten", 2, 10)
		for _, r := range d.Spec.Removals {
			if r.Name == "ten-10" || r.Name == "ten-11" {
				t.Errorf("%s was not named and is removed", r.Name)
			}
		}
	})
	t.Run("no delta of ten parallel increases is lost while another client writes (CA-C59)", func(t *testing.T) { s.testIncreases(t, 10) })
	t.Run("an increase is written only once when the API server's answer to the write is lost (CA-C62)", func(t *testing.T) {
		s.pool("lost", 0)
		s.lossy.lose.Store(1)
		if err := s.groups.IncreaseSize(t.Context(), membership.ID(metav1.NamespaceSystem, "lost"), 3); err != nil {
			t.Error(err)
		}
		s.expect("lost", 3, 0)
	})
	t.Run("a removal is written only once when the API server's answer to the write is lost (CA-C12)", func(t *testing.T) {
		nodes := s.pool("lost-too", 2)
		s.lossy.lose.Store(1)
		if err := s.groups.DeleteNodes(t.Context(), membership.ID(metav1.NamespaceSystem, "lost-too"), nodes[:1]); err != nil {
			t.Error(err)
		}
		s.expect("lost-too", 1, 1)
	})
	t.Run("when the client of an increase disconnects, the call either succeeds and is written, or fails and changes nothing (CA-C12)", func(t *testing.T) {
		s.pool("gone", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := s.groups.IncreaseSize(ctx, membership.ID(metav1.NamespaceSystem, "gone"), 3)
		want := int32(3)
		if err != nil {
			want = 0
		}
		s.expect("gone", want, 0)
	})
	t.Run("managedFields names drover as the owner of a size that drover has written", func(t *testing.T) {
		d := s.expect("ten", 2, 10)
		for _, e := range d.ManagedFields {
			if e.Manager == model.Manager && e.Operation != metav1.ManagedFieldsOperationUpdate {
				t.Errorf("the field manager's operation is %s", e.Operation)
			}
		}
		before := &model.Group{Owner: membership.OwnerOf(&v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{UID: d.UID, Generation: d.Generation - 1}})}
		if !(model.Change{Group: before, Replicas: 2}).Landed(membership.OwnerOf(d)) {
			t.Errorf("the size is not %s's: %+v", model.Manager, d.ManagedFields)
		}
	})
	t.Run("a deployment whose stored size is above 100,000 is not a node group", s.testASizeBeyondTheMaximum)
}

func TestManyIncreasesInParallel(t *testing.T) {
	t.Run("no delta of two hundred parallel increases is lost while another client writes (CA-C59)", func(t *testing.T) {
		newSiteInMemory(t).testIncreases(t, 200)
	})
	t.Run("an increase changes nothing and returns Unavailable when another client writes before each of its 50 attempts", func(t *testing.T) {
		s := newSiteInMemory(t)
		s.pool("contested", 0)
		attempts := s.disturb("contested", func(int) bool { return true })
		err := s.groups.IncreaseSize(t.Context(), membership.ID(metav1.NamespaceSystem, "contested"), 1)
		if model.KindOf(err) != model.Unavailable || !strings.Contains(err.Error(), "50 times in a row") {
			t.Errorf("IncreaseSize returns %v, want Unavailable and the number of conflicts", err)
		}
		if *attempts != conflicts {
			t.Errorf("the increase was attempted %d times, want %d", *attempts, conflicts)
		}
		s.expect("contested", 0, 0)
	})
}

// testIncreases increases a group in parallel. Before two of three attempts to write a size, another client changes the
// deployment, so that these attempts conflict.
func (s *site) testIncreases(t *testing.T, n int32) {
	t.Helper()
	s.pool("many", 0)
	id := membership.ID(metav1.NamespaceSystem, "many")
	attempts := s.disturb("many", func(attempt int) bool { return attempt%3 != 0 })
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			if err := s.groups.IncreaseSize(t.Context(), id, 1); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if *attempts != 3*int(n) {
		t.Errorf("the increases were attempted %d times, want two conflicts and a success for each of %d", *attempts, n)
	}
	s.expect("many", n, 0)
}

// disturb makes another client change an annotation of the deployment before an attempt to write a size, if when returns true for
// the number of the attempt. Attempts are counted from 1. disturb returns a pointer to the number of the last attempt. The
// attempts must not run in parallel.
func (s *site) disturb(name string, when func(attempt int) bool) *int {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
	var attempts int
	before := func() {
		attempts++
		if !when(attempts) {
			return
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/turn":"%d"}}}`, attempts)
		if err := s.client.Patch(s.t.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			s.t.Error(err)
		}
	}
	s.lossy.before.Store(&before)
	s.t.Cleanup(func() { s.lossy.before.Store(nil) })
	return &attempts
}
