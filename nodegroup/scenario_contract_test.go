package nodegroup_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/kube/memory"
)

// house holds an API server in memory, on which Groups and the controllers of deployments and sets run. No Machine controller
// runs: the test creates the nodes.
type house struct {
	t      *testing.T
	client client.Client
	// cached reads from the cache that Groups and the controllers share.
	cached client.Reader
	groups *nodegroup.Groups
}

func newHouse(t *testing.T) *house {
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
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(control.Config("admin", "system:masters"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(control.Config("drover"), manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, client: c, cached: mgr.GetClient(), groups: nodegroup.New(nodegroup.Options{Control: mgr, Target: mgr, Discovery: model.Discovery{Cloud: provider.Provider{}}})}
	if err := errors.Join(
		mgr.Add(h.groups),
		set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: func() string { return rand.String(5) }}).SetupWithManager(mgr),
		deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager(mgr),
	); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-h.groups.Synced()
	return h
}

// machines waits until exactly the wanted number of Machines are not being deleted, on the API server and in the cache, and
// returns their names. Machines that are being deleted continue to exist, because no Machine controller runs that removes their
// finalizers.
func (h *house) machines(t *testing.T, want int) []string {
	t.Helper()
	var names []string
	err := wait.PollUntilContextTimeout(h.t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		var err, cacheErr error
		var known []string
		names, err = living(ctx, h.client)
		known, cacheErr = living(ctx, h.cached)
		return len(names) == want && slices.Equal(names, known), errors.Join(err, cacheErr)
	})
	if err != nil {
		t.Fatalf("waiting for %d machines, there are %v: %v", want, names, err)
	}
	return names
}

// living returns the names of the Machines that are not being deleted, in order.
func living(ctx context.Context, from client.Reader) (names []string, err error) {
	var list v1alpha1.MachineList
	err = from.List(ctx, &list)
	for _, m := range list.Items {
		if m.DeletionTimestamp.IsZero() {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// join assigns a server and a registered node to a Machine, and waits until Groups has both.
func (h *house) join(name string) membership.Node {
	h.t.Helper()
	sum := sha256.Sum256([]byte(name))
	id := fmt.Sprintf("openstack:///%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	m := &v1alpha1.Machine{}
	err := wait.PollUntilContextTimeout(h.t.Context(), 20*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		if err := h.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, m); err != nil {
			return false, err
		}
		m.Spec.ProviderID = &id
		// The Machine controller would also record the node in the Machine's status, which the sets read.
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
		return h.client.Update(ctx, m) == nil, nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.Create(h.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}); err != nil {
		h.t.Fatal(err)
	}
	n := membership.Node{Name: name, ProviderID: id}
	err = wait.PollUntilContextTimeout(h.t.Context(), 20*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		list, err := h.groups.Instances("MachineDeployment/kube-system/pool")
		return slices.ContainsFunc(list, func(i model.Instance) bool { return i.ID == id && i.State == model.Running }), err
	})
	if err != nil {
		h.t.Fatalf("waiting for node %s: %v", name, err)
	}
	return n
}

func TestTheControllersCarryOutTheAutoscalersCalls(t *testing.T) {
	h := newHouse(t)
	const id = "MachineDeployment/kube-system/pool"
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "pool"}}
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: "0", v1alpha1.AnnotationsMaxSize[0]: "10"}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Spec.Selector.MatchLabels = map[string]string{"pool": "pool"}
	d.Spec.Template.Metadata.Labels = d.Spec.Selector.MatchLabels
	if err := h.client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		return h.groups.Refresh(ctx) == nil && len(h.groups.List()) == 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.groups.IncreaseSize(t.Context(), id, 3); err != nil {
		t.Fatal(err)
	}
	names := h.machines(t, 3)
	var nodes []membership.Node
	for _, name := range names {
		nodes = append(nodes, h.join(name))
	}

	t.Run("exactly the Machine that DeleteNodes names is deleted, and it is not replaced (CA-C65)", func(t *testing.T) {
		if err := h.groups.DeleteNodes(t.Context(), id, nodes[1:2]); err != nil {
			t.Fatal(err)
		}
		left := h.machines(t, 2)
		if want := []string{names[0], names[2]}; !slices.Equal(left, want) {
			t.Errorf("machines %v are left, want %v", left, want)
		}
	})
	t.Run("DecreaseTargetSize lowers the size, and the same number of Machines without a node is deleted (CA-C88)", func(t *testing.T) {
		if err := h.groups.IncreaseSize(t.Context(), id, 2); err != nil {
			t.Fatal(err)
		}
		h.machines(t, 4)
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			return h.groups.DecreaseTargetSize(t.Context(), id, -4) == nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		left := h.machines(t, 2)
		if want := []string{names[0], names[2]}; !slices.Equal(left, want) {
			t.Errorf("machines %v are left, want %v", left, want)
		}
		if size, err := h.groups.TargetSize(id); err != nil || size != 2 {
			t.Errorf("CA-C85 the size is %d, error %v", size, err)
		}
	})
	t.Run("a second call of DeleteNodes for a removed Machine changes nothing (CA-C67)", func(t *testing.T) {
		if err := h.groups.DeleteNodes(t.Context(), id, nodes[1:2]); err != nil {
			t.Fatal(err)
		}
		if size, err := h.groups.TargetSize(id); err != nil || size != 2 {
			t.Errorf("the size is %d, error %v", size, err)
		}
	})
	t.Run("after a user deleted a Machine and its replacement joined, DeleteNodes of the deleted one removes no other Machine (CA-C68)", func(t *testing.T) {
		dying := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names[0]}}
		held := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["drover-project.github.io/test"]}}`))
		if err := errors.Join(h.client.Patch(t.Context(), dying, held), h.client.Delete(t.Context(), dying)); err != nil {
			t.Fatal(err)
		}
		var fresh string
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
			left := h.machines(t, 2)
			if i := slices.IndexFunc(left, func(name string) bool { return name != names[0] && name != names[2] }); i >= 0 {
				fresh = left[i]
			}
			_, counts := h.groups.ForNode(nodes[0])
			return fresh != "" && !counts, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.join(fresh)
		if err := h.groups.DeleteNodes(t.Context(), id, []membership.Node{{Name: names[0]}}); err != nil {
			t.Fatal(err)
		}
		if err := h.groups.IncreaseSize(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		left := h.machines(t, 3)
		if !slices.Contains(left, names[2]) || !slices.Contains(left, fresh) || slices.Contains(left, names[0]) {
			t.Errorf("machines %v are left, want %s, %s and a new one", left, names[2], fresh)
		}
	})
}
