package deployment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// world is a real control plane on which the two controllers run, and an actor in the place of the Machine controller.
type world struct {
	t      *testing.T
	client client.Client
	kube   *kube.Cluster
	actor  *actor
}

// actor makes Machines Ready, and lets deleted ones go, as long as it is not held.
type actor struct {
	client     client.Client
	held       atomic.Bool
	heldDelete atomic.Bool
}

func (a *actor) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &v1alpha1.Machine{}
	if err := a.client.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	again := ctrl.Result{RequeueAfter: 50 * time.Millisecond}
	switch {
	case !m.DeletionTimestamp.IsZero():
		if a.heldDelete.Load() {
			return again, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	case m.Status.NodeRef == nil && a.held.Load():
		return again, nil
	case m.Status.NodeRef == nil:
		now := metav1.Now()
		return ctrl.Result{}, client.IgnoreNotFound(a.patch(ctx, m, map[string]any{
			"metadata": map[string]any{"uid": m.UID},
			"spec":     map[string]any{"providerID": "openstack:///" + string(m.UID)},
			"status": map[string]any{
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

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := *cluster.Config
	config.QPS, config.Burst = -1, 0
	direct, err := client.New(&config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), direct, "crds"); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Logger: zap.New(zap.UseDevMode(true), zap.WriteTo(t.Output()))})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: direct, kube: cluster, actor: &actor{client: mgr.GetClient()}}
	for _, setup := range []func(ctrl.Manager) error{
		set.New(set.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager,
		deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager,
		func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).For(&v1alpha1.Machine{}).Named("actor").Complete(w.actor)
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
	return w
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

// eventually waits until what is seen is as wanted, and says what was seen last when it is not.
func (w *world) eventually(what string, see func() (string, bool)) {
	w.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		var ok bool
		last, ok = see()
		return ok, nil
	})
	if err != nil {
		w.t.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}

func (w *world) get(name string) *v1alpha1.MachineDeployment {
	w.t.Helper()
	d := &v1alpha1.MachineDeployment{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) machines(name string) []v1alpha1.Machine {
	w.t.Helper()
	var list v1alpha1.MachineList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"group": name}); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// settled waits until the deployment has n Machines, all of its current template and available, and nothing else.
func (w *world) settled(name string, n int32) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d settled Machines in %s", n, name), func() (string, bool) {
		st, count := w.get(name).Status, len(w.machines(name))
		return fmt.Sprintf("%d Machines, status %+v", count, st), count == int(n) && st.Replicas == n && st.UpdatedReplicas == n &&
			st.AvailableReplicas == n && st.ObservedGeneration == w.get(name).Generation
	})
}

func (w *world) patch(name, body string) {
	w.t.Helper()
	if err := w.client.Patch(w.t.Context(), group(name, nil), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// remove names Machines for removal and lowers the size by them, as one conditional write, like a node group does.
func (w *world) remove(name string, machines ...v1alpha1.Machine) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d := w.get(name)
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
		return w.client.Patch(w.t.Context(), group(name, nil), client.RawPatch(types.MergePatchType, body))
	})
	if err != nil {
		w.t.Fatal(err)
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

func TestDeploymentsOnARealControlPlane(t *testing.T) {
	w := newWorld(t)
	t.Run("kubectl scale", func(t *testing.T) { w.on(t).kubectlScale() })
	t.Run("MC-18 a changed template rolls, the size keeps", func(t *testing.T) { w.on(t).roll() })
	t.Run("CA-C65 CA-C66 exactly the named Machines go", func(t *testing.T) { w.on(t).namedGo() })
	t.Run("CA-C68 a named Machine that somebody deleted is not replaced", func(t *testing.T) { w.on(t).namedAndDeleted() })
	t.Run("CA-C80 removals in the middle of a rollout", func(t *testing.T) { w.on(t).removalsInARoll() })
	t.Run("MCM-34 a Machine deleted by hand is replaced once", func(t *testing.T) { w.on(t).replaced() })
	t.Run("design §3 a dropped spec.replicas comes back", func(t *testing.T) { w.on(t).replicasDropped() })
	t.Run("MC-30 MC-33 orphans are adopted, strangers released", func(t *testing.T) { w.on(t).adoption() })
	t.Run("MCM-1 a spec that cannot be followed is told", func(t *testing.T) { w.on(t).badBounds() })
	t.Run("CAPI-58 a roll of 20 costs few writes", func(t *testing.T) { w.on(t).writes() })
	t.Run("CAPI-53 CAPI-54 a re-ordered template and a set of another maker roll nothing", func(t *testing.T) { w.on(t).takeOver() })
	t.Run("MC-31 a deleted deployment takes everything along", func(t *testing.T) { w.on(t).cascade() })
}

func (w *world) on(t *testing.T) *world {
	clone := *w
	clone.t = t
	return &clone
}

func (w *world) create(d *v1alpha1.MachineDeployment) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = w.client.Delete(context.Background(), d, client.PropagationPolicy(metav1.DeletePropagationForeground))
	})
}

func (w *world) kubectlScale() {
	w.create(group("scaled", size(2)))
	w.settled("scaled", 2)
	for _, m := range w.machines("scaled") {
		if !strings.Contains(strings.Join(m.Finalizers, " "), v1alpha1.FinalizerServer) || m.Spec.Metadata.Name != m.Name {
			w.t.Errorf("MC-39 %s: finalizers %v, server name %q", m.Name, m.Finalizers, m.Spec.Metadata.Name)
		}
	}
	for _, n := range []int32{5, 1, 0, 3} {
		if out, err := w.kube.Kubectl(w.t.Context(), "scale", "machinedeployment/scaled", fmt.Sprintf("--replicas=%d", n)); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
		w.settled("scaled", n)
	}
	if got := w.get("scaled"); got.Status.Selector != "group=scaled" || *got.Status.LastReplicas != 3 {
		w.t.Errorf("MC-4 selector %q, last size %d", got.Status.Selector, *got.Status.LastReplicas)
	}
}

func (w *world) roll() {
	w.create(group("rolled", size(3)))
	w.settled("rolled", 3)
	before := names(w.machines("rolled"))
	w.patch("rolled", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("the roll", func() (string, bool) {
		for name := range names(w.machines("rolled")) {
			if before[name] {
				return name + " is still there", false
			}
		}
		return "", true
	})
	w.settled("rolled", 3)
	if got := w.get("rolled").Annotations[v1alpha1.AnnotationRevision]; got != "2" {
		w.t.Errorf("MC-20 revision %q", got)
	}
}

func (w *world) namedGo() {
	w.create(group("named", size(6)))
	w.settled("named", 6)
	all := w.machines("named")
	w.remove("named", all[1])
	w.remove("named", all[4])
	w.remove("named", all[2], all[5])
	w.settled("named", 2)
	left := names(w.machines("named"))
	if !left[all[0].Name] || !left[all[3].Name] {
		w.t.Errorf("CA-C88 left are %v, unnamed were %s and %s", left, all[0].Name, all[3].Name)
	}
	w.patch("named", `{"spec":{"replicas":4}}`)
	w.settled("named", 4)
}

func (w *world) namedAndDeleted() {
	w.create(group("dying", size(3)))
	w.settled("dying", 3)
	w.actor.heldDelete.Store(true)
	defer w.actor.heldDelete.Store(false)
	victim := w.machines("dying")[0]
	if err := w.client.Delete(w.t.Context(), &victim); err != nil {
		w.t.Fatal(err)
	}
	w.remove("dying", victim)
	w.actor.heldDelete.Store(false)
	w.settled("dying", 2)
}

func (w *world) removalsInARoll() {
	w.create(group("busy", size(4)))
	w.settled("busy", 4)
	old := w.machines("busy")
	w.actor.held.Store(true)
	defer w.actor.held.Store(false)
	w.patch("busy", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("a new Machine", func() (string, bool) { return "", len(w.machines("busy")) == 5 })
	w.remove("busy", old[2])
	w.eventually("the named one to go, and only that", func() (string, bool) {
		now := names(w.machines("busy"))
		return fmt.Sprint(now), len(now) == 4 && !now[old[2].Name] && now[old[0].Name] && now[old[1].Name] && now[old[3].Name]
	})
	w.actor.held.Store(false)
	w.settled("busy", 3)
}

func (w *world) replaced() {
	w.create(group("healed", size(3)))
	w.settled("healed", 3)
	before := names(w.machines("healed"))
	victim := w.machines("healed")[1]
	if err := w.client.Delete(w.t.Context(), &victim); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("a replacement", func() (string, bool) {
		now := names(w.machines("healed"))
		return fmt.Sprint(now), len(now) == 3 && !now[victim.Name]
	})
	w.settled("healed", 3)
	var made int
	for name := range names(w.machines("healed")) {
		if !before[name] {
			made++
		}
	}
	if made != 1 {
		w.t.Errorf("%d were made, 1 was lost", made)
	}
}

func (w *world) replicasDropped() {
	d := group("gitops", nil)
	d.Annotations = map[string]string{v1alpha1.AnnotationsMinSize[0]: "2", v1alpha1.AnnotationsMaxSize[0]: "5"}
	w.create(d)
	w.settled("gitops", 2)
	w.patch("gitops", `{"spec":{"replicas":4}}`)
	w.settled("gitops", 4)
	w.patch("gitops", `{"spec":{"replicas":null}}`)
	w.eventually("the size to come back", func() (string, bool) {
		n := w.get("gitops").Spec.Replicas
		return fmt.Sprint(n), n != nil && *n == 4
	})
	w.settled("gitops", 4)

	w.create(group("plain", nil))
	w.settled("plain", 1)
}

func (w *world) adoption() {
	w.create(group("adopting", size(2)))
	w.settled("adopting", 2)
	m := w.machines("adopting")[0]
	body := `{"metadata":{"labels":{"group":"stranger"}}}`
	if err := w.client.Patch(w.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the release", func() (string, bool) {
		stranger := &v1alpha1.Machine{}
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(&m), stranger); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(stranger.OwnerReferences), len(stranger.OwnerReferences) == 0
	})
	w.settled("adopting", 2)
	body = `{"metadata":{"labels":{"group":"adopting"}}}`
	if err := w.client.Patch(w.t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
	w.settled("adopting", 2)
	var sets v1alpha1.MachineSetList
	if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "adopting"}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Patch(w.t.Context(), &sets.Items[0], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the set to be adopted", func() (string, bool) {
		s := &v1alpha1.MachineSet{}
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(&sets.Items[0]), s)
		return fmt.Sprint(err, s.OwnerReferences), err == nil && metav1.IsControlledBy(s, w.get("adopting"))
	})
}

// writes counts what the controllers write to sets and deployments while 20 Machines roll in steps of 5.
func (w *world) writes() {
	d := group("counted", size(20))
	surge := intstr.FromInt32(5)
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: &surge}}
	w.create(d)
	w.settled("counted", 20)
	before := w.counted()
	w.patch("counted", `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.37.2"}}}}}`)
	w.eventually("the roll to begin", func() (string, bool) { return "", len(w.machines("counted")) > 20 })
	w.settled("counted", 20)
	after := w.counted()
	w.t.Logf("20 Machines rolled: %d writes to sets and deployments, %d Machines made, %d deleted",
		after["owners"]-before["owners"], after["create"]-before["create"], after["delete"]-before["delete"])
	for what, n := range after {
		w.t.Logf("    %s: %d", what, n-before[what])
	}
	if made, deleted := after["create"]-before["create"], after["delete"]-before["delete"]; made != 20 || deleted != 20 {
		w.t.Errorf("%d made and %d deleted, 20 were rolled", made, deleted)
	}
	if n := after["owners"] - before["owners"]; n > 40 {
		w.t.Errorf("%d writes to sets and deployments, at most 2 for each of 20 Machines are wanted", n)
	}
}

// counted reads the audit log: writes of this group's sets and deployment, creates and deletes of its Machines.
func (w *world) counted() map[string]int {
	w.t.Helper()
	requests, err := w.kube.Requests()
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range requests {
		if !r.Wrote() || !strings.Contains(r.URI, "counted") && !strings.Contains(r.URI, set.FieldManager) {
			continue
		}
		switch r.Resource {
		case "machinesets", "machinedeployments":
			counts["owners"]++
			counts[r.Resource+"/"+r.Subresource+" "+r.Verb]++
		case "machines":
			counts[r.Verb]++
		}
	}
	return counts
}

// takeOver lets a set that another program made, with names and a provider document of its own, be the current one.
func (w *world) takeOver() {
	d := group("taken", size(2))
	labels := map[string]string{"group": "taken", v1alpha1.LabelTemplateHash: "584598b977"}
	former := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "taken-584598b977", Namespace: "default", Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationRevision: "7", v1alpha1.AnnotationRevisionHistory: "2,5"}},
		Spec: v1alpha1.MachineSetSpec{Replicas: size(2), Selector: metav1.LabelSelector{MatchLabels: labels}, Template: *d.Spec.Template.DeepCopy()},
	}
	former.Spec.Template.Metadata.Labels = labels
	former.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"cloudProviderSpec":{"region":"","flavor":"m1.small"},"cloudProvider":"openstack","network":null}`)
	if err := w.client.Create(w.t.Context(), former); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the former set's Machines", func() (string, bool) { return "", len(w.machines("taken")) == 2 })
	before := names(w.machines("taken"))
	w.create(d)
	w.settled("taken", 2)
	for name := range names(w.machines("taken")) {
		if !before[name] {
			w.t.Errorf("%s is new", name)
		}
	}
	var sets v1alpha1.MachineSetList
	if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "taken"}); err != nil {
		w.t.Fatal(err)
	}
	if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationRevisionHistory] != "2,5" || w.get("taken").Annotations[v1alpha1.AnnotationRevision] != "7" {
		w.t.Errorf("%d sets, history %v, revision %v", len(sets.Items), sets.Items[0].Annotations, w.get("taken").Annotations)
	}
}

func (w *world) badBounds() {
	d := group("bounded", size(1))
	d.Annotations = map[string]string{v1alpha1.AnnotationsMaxSize[0]: "lots"}
	w.create(d)
	w.settled("bounded", 1)
	w.eventually("the condition", func() (string, bool) {
		for _, c := range w.get("bounded").Status.Conditions {
			if c.Type == v1alpha1.ConditionBoundsValid {
				return c.Message, c.Status == metav1.ConditionFalse && strings.Contains(c.Message, `"lots"`)
			}
		}
		return "no condition", false
	})
}

func (w *world) cascade() {
	d := group("doomed", size(3))
	w.create(d)
	w.settled("doomed", 3)
	if err := w.client.Delete(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("everything to go", func() (string, bool) {
		var sets v1alpha1.MachineSetList
		if err := w.client.List(w.t.Context(), &sets, client.MatchingLabels{"group": "doomed"}); err != nil {
			return err.Error(), false
		}
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(d), &v1alpha1.MachineDeployment{})
		left := len(w.machines("doomed")) + len(sets.Items)
		return fmt.Sprintf("%d objects, deployment: %v", left, err), left == 0 && client.IgnoreNotFound(err) == nil && err != nil
	})
}
