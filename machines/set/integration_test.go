package set_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// many is how many Machines are made at once.
const many = 1000

func TestASetOnARealControlPlane(t *testing.T) {
	cluster, c := start(t)
	t.Run("MC-32 a set without a deployment makes its Machines, as fast as a bare client may", func(t *testing.T) {
		bare := min(bareCreates(t, c, "cold"), bareCreates(t, c, "warm"))
		began := time.Now()
		s := newSet("many", many)
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		await(t, c, "many", many)
		took := lastCreate(t, cluster).Sub(began)
		t.Logf("%d Machines: %s by a bare client, %s by a set: %.2f times", many, bare, took, took.Seconds()/bare.Seconds())
		if took > 2*bare+time.Second {
			t.Errorf("a set takes %s, a bare client %s", took, bare)
		}
	})
	t.Run("CA-C88 design §3 a bare set lets what is listed go, and puts back a size that is dropped", func(t *testing.T) {
		var machines v1alpha1.MachineList
		if err := c.List(t.Context(), &machines, client.MatchingLabels{"set": "many"}); err != nil {
			t.Fatal(err)
		}
		victim := machines.Items[7]
		patch(t, c, "many", fmt.Sprintf(`{"spec":{"replicas":%d,"removals":[{"name":%q,"uid":%q,"time":%q}]}}`,
			many-1, victim.Name, victim.UID, metav1.Now().UTC().Format(time.RFC3339)))
		eventually(t, "the listed one to be deleted", func() (string, bool) {
			m := &v1alpha1.Machine{}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(&victim), m)
			return fmt.Sprint(err, m.DeletionTimestamp), err == nil && !m.DeletionTimestamp.IsZero()
		})
		await(t, c, "many", many-1)
		patch(t, c, "many", `{"spec":{"replicas":null}}`)
		eventually(t, "the size", func() (string, bool) {
			s := &v1alpha1.MachineSet{}
			err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "many"}, s)
			return fmt.Sprint(err, s.Spec.Replicas), err == nil && s.Spec.Replicas != nil && *s.Spec.Replicas == many-1
		})
		await(t, c, "many", many-1)
	})
}

func start(t *testing.T) (*kube.Cluster, client.Client) {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := *cluster.Config
	config.QPS = -1
	c, err := client.New(&config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.New(set.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return cluster, c
}

func newSet(name string, replicas int32) *v1alpha1.MachineSet {
	labels := map[string]string{"set": name}
	return &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
		Spec: v1alpha1.MachineSetSpec{Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels}, Template: v1alpha1.MachineTemplateSpec{
			Metadata: v1alpha1.EmbeddedMetadata{Labels: labels},
			Spec:     v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack"}`)}}},
		}},
	}
}

// bareCreates is how long a client takes that makes the same objects, as many at once as a set does.
func bareCreates(t *testing.T, c client.Client, prefix string) time.Duration {
	t.Helper()
	began := time.Now()
	slots := make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range many {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", i), Namespace: "default", Finalizers: []string{v1alpha1.FinalizerServer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody", Controller: new(bool)}}}}
			m.Spec = newSet("x", 1).Spec.Template.Spec
			if err := c.Create(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// lastCreate is when the set's last Machine was made.
func lastCreate(t *testing.T, cluster *kube.Cluster) (at time.Time) {
	t.Helper()
	requests, err := cluster.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "machines" && r.Wrote() && strings.Contains(r.URI, set.FieldManager) && r.At.After(at) {
			at = r.At
		}
	}
	return at
}

// await waits until a set counts as many living Machines as wanted, and holds that there are no more.
func await(t *testing.T, c client.Client, name string, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d Machines", n), func() (string, bool) {
		s := &v1alpha1.MachineSet{}
		err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, s)
		return fmt.Sprintf("%v %+v", err, s.Status), err == nil && s.Status.Replicas == n && s.Status.ObservedGeneration == s.Generation
	})
	var machines v1alpha1.MachineList
	if err := c.List(t.Context(), &machines, client.MatchingLabels{"set": name}); err != nil {
		t.Fatal(err)
	}
	var living int32
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp.IsZero() {
			living++
		}
	}
	if living != n {
		t.Errorf("MC-34 %d living Machines, %d are wanted", living, n)
	}
}

func patch(t *testing.T, c client.Client, name, body string) {
	t.Helper()
	if err := c.Patch(t.Context(), newSet(name, 0), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, see func() (string, bool)) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 60*time.Second, true, func(context.Context) (bool, error) {
		var ok bool
		last, ok = see()
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}
