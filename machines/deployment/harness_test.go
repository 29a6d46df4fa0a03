package deployment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// harness holds a real control plane on which the MachineDeployment controller and the MachineSet controller run, and an actor
// that replaces the Machine controller.
type harness struct {
	t      testing.TB
	client client.Client
	kube   *kube.Cluster
	actor  *actor
	// patience limits how long the tests wait for a change.
	patience time.Duration
	// deployments is the MachineDeployment controller.
	deployments *deployment.Reconciler
}

// actor makes Machines Ready and finishes deletions, unless it is stopped from doing so.
type actor struct {
	client client.Client
	mu     sync.Mutex
	held   map[string]string
	// readable, unless nil, returns why a Machine cannot have a server yet.
	readable func(context.Context, *v1alpha1.Machine) error
}

// creates and deletes are the values of the parameter what of actor.hold. They name the work that the actor then does not do:
// to make new Machines Ready, or to finish deletions.
const creates, deletes = "creates", "deletes"

// hold stops the actor from making a group's new Machines Ready (what is creates), or from finishing the deletion of the
// group's Machines (what is deletes).
func (a *actor) hold(group, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[group] = what
}

func (a *actor) letGo(group string) { a.hold(group, "") }

// waitFor makes the actor make only those new Machines Ready for which the function returns no error. The others show the error.
func (a *actor) waitFor(readable func(context.Context, *v1alpha1.Machine) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.readable = readable
}

// why returns the error that a new Machine shows while it waits; empty when it does not wait.
func (a *actor) why(ctx context.Context, m *v1alpha1.Machine) string {
	a.mu.Lock()
	readable := a.readable
	a.mu.Unlock()
	if readable == nil {
		return ""
	}
	if err := readable(ctx, m); err != nil {
		return err.Error()
	}
	return ""
}

func (a *actor) isHeld(m *v1alpha1.Machine, what string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[m.Labels["group"]] == what
}

func (a *actor) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Machine{}
	if err := a.client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	again := ctrl.Result{RequeueAfter: 50 * time.Millisecond}
	switch {
	case !m.DeletionTimestamp.IsZero():
		if a.isHeld(m, deletes) {
			return again, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	case m.Status.NodeRef == nil && a.isHeld(m, creates):
		return again, nil
	case m.Status.NodeRef == nil:
		if why := a.why(ctx, m); why != "" {
			return ctrl.Result{RequeueAfter: 5 * time.Second}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{
				"status": map[string]any{"errorReason": "InvalidSpec", "errorMessage": why},
			}))
		}
		now := metav1.Now()
		return ctrl.Result{}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{
			"metadata": map[string]any{"uid": m.UID},
			"spec":     map[string]any{"providerID": "openstack:///" + string(m.UID)},
			"status": map[string]any{
				"errorReason": nil, "errorMessage": nil,
				"phase": v1alpha1.PhaseRunning, "nodeRef": corev1.ObjectReference{Kind: "Node", Name: m.Name},
				"conditions": []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: &now}},
			},
		}))
	}
	return ctrl.Result{}, nil
}

func (a *actor) patch(ctx context.Context, m *v1alpha1.Machine, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return a.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, body), client.FieldOwner("actor"))
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}, Prepare: func(ctx context.Context, c *kube.Cluster) error {
		direct, err := client.New(c.Config, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		return deploy.Apply(ctx, direct, "crds")
	}})
	rest := *cluster.Config
	rest.QPS, rest.Burst = -1, 0
	direct, err := client.New(&rest, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest, ctrl.Options{Scheme: scheme, Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"}, Logger: zap.New(zap.UseDevMode(true), zap.WriteTo(t.Output()))})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{patience: 30 * time.Second, t: t, client: direct, kube: cluster, actor: &actor{client: mgr.GetClient(), held: map[string]string{}}}
	h.deployments = deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}})
	for _, setup := range []func(ctrl.Manager) error{
		set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: func() string { return rand.String(5) }}).SetupWithManager,
		h.deployments.SetupWithManager,
		func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).For(&v1alpha1.Machine{}).Named("actor").WithOptions(controller.Options{MaxConcurrentReconciles: 8}).Complete(h.actor)
		},
	} {
		if err := setup(mgr); err != nil {
			t.Fatal(err)
		}
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
	return h
}

func group(name string, replicas *int32) *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: replicas,
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"group": name}},
			Template: v1alpha1.MachineTemplateSpec{
				Metadata: v1alpha1.EmbeddedMetadata{Labels: map[string]string{"group": name}},
				Spec: v1alpha1.MachineSpec{
					ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small"}}`)}},
					Versions:     v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"},
				},
			},
		},
	}
}

// eventually waits until see returns true. When it never does, eventually fails the test with the last text that see returned.
func (h *harness) eventually(what string, see func() (string, bool)) {
	h.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(h.t.Context(), 100*time.Millisecond, h.patience, true, func(context.Context) (bool, error) {
		var ok bool
		last, ok = see()
		return ok, nil
	})
	if err != nil {
		h.t.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}

func (h *harness) get(name string) *v1alpha1.MachineDeployment {
	h.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	if err := h.client.Get(h.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, d); err != nil {
		h.t.Fatal(err)
	}
	return d
}

func (h *harness) machines(name string) []v1alpha1.Machine {
	h.t.Helper()
	var list v1alpha1.MachineList
	if err := h.client.List(h.t.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"group": name}); err != nil {
		h.t.Fatal(err)
	}
	return list.Items
}

// settled waits until the deployment has exactly n Machines, and all of them are available and of its current template.
func (h *harness) settled(name string, n int32) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%d settled Machines in %s", n, name), func() (string, bool) {
		d := h.get(name)
		st := d.Status
		if st.Replicas != n || st.UpdatedReplicas != n || st.AvailableReplicas != n || st.ObservedGeneration != d.Generation {
			return fmt.Sprintf("status %+v", st), false
		}
		count := len(h.machines(name))
		return fmt.Sprintf("%d Machines, status %+v", count, st), count == int(n)
	})
}

func (h *harness) patch(name, body string) {
	h.t.Helper()
	if err := h.client.Patch(h.t.Context(), group(name, nil), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		h.t.Fatal(err)
	}
}

// remove names Machines for removal and lowers the size by their number. Both are one write, as when the autoscaler removes
// nodes. The write is repeated if another client has changed the deployment meanwhile.
func (h *harness) remove(name string, machines ...v1alpha1.Machine) {
	h.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d := h.get(name)
		removals := d.Spec.Removals
		for _, m := range machines {
			removals = append(removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.Now()})
		}
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": d.ResourceVersion},
			"spec":     map[string]any{"replicas": *d.Spec.Replicas - int32(len(machines)), "removals": removals},
		})
		if err != nil {
			return err
		}
		return h.client.Patch(h.t.Context(), group(name, nil), client.RawPatch(types.MergePatchType, body))
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func names(machines []v1alpha1.Machine) map[string]bool {
	all := map[string]bool{}
	for _, m := range machines {
		all[m.Name] = true
	}
	return all
}

func size(n int32) *int32 { return &n }
