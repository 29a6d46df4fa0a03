package freeze_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/safety/freeze"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kube/memory"
)

// period is how long a group is not frozen again after an operator ended its freeze.
const period = 4 * time.Second

// world is an API server with the controllers of deployments, sets and freezes.
type world struct {
	*testing.T
	client  client.Client
	metrics *prometheus.Registry
	// sets is the lease of the set controller. While its value is false, the lease is not fresh, and the set controller does nothing.
	sets lease
}

type lease struct{ atomic.Bool }

// Fresh reports whether the set controller may act.
func (l *lease) Fresh(time.Time) bool { return l.Load() }

// newWorld returns a world with a real control plane, on which the controllers have exactly the rights that deploy/rbac grants
// drover.
func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kube.ForTest(t, kube.Options{Prepare: func(ctx context.Context, c *kube.Cluster) error {
		direct, err := client.New(c.Config, client.Options{})
		if err != nil {
			return err
		}
		return deploy.Apply(ctx, direct, "crds", "rbac")
	}})
	admin := rest.CopyConfig(cluster.Config)
	admin.QPS = -1
	drover := rest.CopyConfig(admin)
	drover.Impersonate.UserName = "system:serviceaccount:drover:drover"
	return newWorldAt(t, admin, drover)
}

// newWorldInMemory returns a world with an API server in memory.
func newWorldInMemory(t *testing.T) *world {
	t.Helper()
	crds, err := deploy.Objects("crds")
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := memory.NewCatalog(crds...)
	if err != nil {
		t.Fatal(err)
	}
	server, err := memory.New(memory.Options{Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldAt(t, server.Config("admin", "system:masters"), server.Config("drover"))
}

func newWorldAt(t *testing.T, admin, drover *rest.Config) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	w := &world{T: t, metrics: prometheus.NewRegistry()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		w.must(add(scheme))
	}
	var err error
	w.client, err = client.New(admin, client.Options{Scheme: scheme})
	w.must(err)
	mgr, err := ctrl.NewManager(drover, ctrl.Options{Scheme: scheme, Controller: config.Controller{SkipNameValidation: new(true)}, Metrics: server.Options{BindAddress: "0"}})
	w.must(err)
	freezes, err := freeze.New(freeze.Options{
		Control: mgr, Clock: clock.RealClock{}, Registry: w.metrics, Limits: freeze.Limits{Up: 2, Down: 1, Period: period},
	})
	w.must(err)
	w.must(freezes.SetupWithManager(mgr))
	w.must(deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager(mgr))
	w.must(set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Lease: &w.sets, Suffix: func() string { return rand.String(5) }}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.sets.Store(true)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func group(name string, replicas int32) *v1alpha1.MachineDeployment {
	labels := map[string]string{"group": name}
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplateSpec{
				Metadata: v1alpha1.EmbeddedMetadata{Labels: labels},
				Spec:     v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"openstack"}`)}}},
			},
		},
	}
}

func (w *world) eventually(what string, see func() (string, bool)) {
	w.Helper()
	var last string
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		var ok bool
		last, ok = see()
		return ok, nil
	})
	if err != nil {
		w.Fatalf("waiting for %s: %v; last seen: %s", what, err, last)
	}
}

func (w *world) deployment(name string) *v1alpha1.MachineDeployment {
	w.Helper()
	d := &v1alpha1.MachineDeployment{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Namespace: "default", Name: name}, d))
	return d
}

// setOf returns the only set of a group.
func (w *world) setOf(name string) *v1alpha1.MachineSet {
	w.Helper()
	var list v1alpha1.MachineSetList
	w.must(w.client.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"group": name}))
	if len(list.Items) != 1 {
		w.Fatalf("%s has %d sets", name, len(list.Items))
	}
	return &list.Items[0]
}

// living returns how many Machines of a group are not being deleted.
func (w *world) living(name string) (n int) {
	w.Helper()
	var list v1alpha1.MachineList
	w.must(w.client.List(w.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"group": name}))
	for _, m := range list.Items {
		if m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// create creates a group and waits for its Machines.
func (w *world) create(name string, replicas int32) {
	w.Helper()
	w.must(w.client.Create(w.Context(), group(name, replicas)))
	w.eventually("the Machines of "+name, func() (string, bool) { return fmt.Sprint(w.living(name)), w.living(name) == int(replicas) })
}

// addMachines creates Machines of a set, as a faulty program does.
func (w *world) addMachines(set *v1alpha1.MachineSet, n int) {
	w.Helper()
	for i := range n {
		w.must(w.client.Create(w.Context(), &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-extra-%d", set.Name, i), Namespace: set.Namespace, Labels: set.Spec.Template.Metadata.Labels,
				Finalizers:      []string{v1alpha1.FinalizerServer},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
			},
			Spec: set.Spec.Template.Spec,
		}))
	}
}

// marked describes the freeze of an object: its label, and the status and reason of its condition.
func marked(o client.Object, conditions []metav1.Condition) string {
	text := o.GetLabels()[v1alpha1.LabelFreeze]
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionFrozen); c != nil {
		text += " " + string(c.Status) + " " + c.Reason
	}
	return text
}

// expect waits until the deployment of a group and its set have the same freeze state.
func (w *world) expect(name, want string) {
	w.Helper()
	w.eventually(fmt.Sprintf("the marks %q of %s", want, name), func() (string, bool) {
		d, s := w.deployment(name), w.setOf(name)
		first, second := marked(d, d.Status.Conditions), marked(s, s.Status.Conditions)
		return fmt.Sprintf("%q and %q with %d living Machines", first, second, w.living(name)), first == want && second == want
	})
}

// expectEvents waits until, for each reason, there is an Event about an object whose name has the prefix.
func (w *world) expectEvents(prefix string, reasons ...string) {
	w.Helper()
	for _, reason := range reasons {
		w.eventually("an Event "+reason, func() (string, bool) {
			var list eventsv1.EventList
			w.must(w.client.List(w.Context(), &list, client.InNamespace("default")))
			for _, e := range list.Items {
				if e.Reason == reason && strings.HasPrefix(e.Regarding.Name, prefix) {
					return "", true
				}
			}
			return fmt.Sprint(len(list.Items), " Events"), false
		})
	}
}

// frozenSeries returns the number of frozen objects in the metric.
func (w *world) frozenSeries() int {
	w.Helper()
	families, err := w.metrics.Gather()
	w.must(err)
	for _, f := range families {
		if f.GetName() == "drover_frozen" {
			return len(f.GetMetric())
		}
	}
	return 0
}

func (w *world) patch(o client.Object, body string) {
	w.Helper()
	w.must(w.client.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))))
}

const (
	free      = " False WithinReplicaCount"
	byHand    = " False UnfrozenByHand"
	overshoot = "True True OverShootingReplicaCount"
)

func TestFreezeOnARealControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("pool", 3)
	t.Run("drover's RBAC rights suffice to freeze a deployment and its set, and the unfreeze annotation ends the freeze (MCM-70, MCM-77)", func(t *testing.T) {
		w.sets.Store(false)
		w.addMachines(w.setOf("pool"), 3)
		w := &world{T: t, client: w.client, metrics: w.metrics}
		w.expect("pool", overshoot)
		w.expectEvents("pool", "FrozeMachineDeployment", "FrozeMachineSet")
		w.patch(w.deployment("pool"), `{"metadata":{"annotations":{"safety.machine.sapcloud.io/unfreeze":"true"}}}`)
		w.expect("pool", byHand)
		if d := w.deployment("pool"); len(d.Annotations[v1alpha1.AnnotationUnfreezeMCM]) != 0 {
			t.Errorf("the annotation was not removed: %v", d.Annotations)
		}
		w.expectEvents("pool", "UnfrozeMachineDeployment", "UnfrozeMachineSet")
		w.expect("pool", overshoot)
	})
	t.Run("a frozen set deletes its surplus Machines, which ends the freeze (MCM-71, MCM-76)", func(t *testing.T) {
		w.sets.Store(true)
		w := &world{T: t, client: w.client, metrics: w.metrics}
		w.expect("pool", free)
		w.eventually("three Machines", func() (string, bool) { return fmt.Sprint(w.living("pool")), w.living("pool") == 3 })
	})
}

func TestAFreezeStartsAndEndsWhileTheOtherControllersRun(t *testing.T) {
	t.Parallel()
	w := newWorldInMemory(t)
	w.create("pool", 3)
	w.create("other", 2)
	in := func(t *testing.T) *world { return &world{T: t, client: w.client, metrics: w.metrics} }
	inOrder(t, "a deployment and its set are frozen when the Machines reach size plus surge plus --safety-up (MCM-70)", func(t *testing.T) {
		w.sets.Store(false)
		w.addMachines(w.setOf("pool"), 3)
		in(t).expect("pool", overshoot)
		in(t).expectEvents("pool", "FrozeMachineDeployment", "FrozeMachineSet")
		if n := w.frozenSeries(); n != 2 {
			t.Errorf("the metric shows %d frozen objects, want 2", n)
		}
	})
	inOrder(t, "a group with as many Machines as its size is not frozen while another group is (MCM-75)", func(t *testing.T) { in(t).expect("other", "") })
	inOrder(t, "the unfreeze annotation ends the freeze, and the group is frozen again after --machine-safety-overshooting-period (MCM-77)", func(t *testing.T) {
		w := in(t)
		w.patch(w.deployment("pool"), `{"metadata":{"annotations":{"safety.machine.sapcloud.io/unfreeze":"true"}}}`)
		w.expect("pool", byHand)
		since := time.Now()
		if d := w.deployment("pool"); len(d.Annotations[v1alpha1.AnnotationUnfreezeMCM]) != 0 {
			t.Errorf("the annotation was not removed: %v", d.Annotations)
		}
		w.expectEvents("pool", "UnfrozeMachineDeployment", "UnfrozeMachineSet")
		w.expect("pool", overshoot)
		// drover rounds the condition's time down to seconds, so it may freeze the group again somewhat earlier than a full period after
		// the end of the freeze.
		if held := time.Since(since); held < period-2*time.Second {
			t.Errorf("it was frozen again after %v", held)
		}
	})
	inOrder(t, "the unfreeze annotation on a set ends the freeze (MCM-77)", func(t *testing.T) {
		w := in(t)
		w.patch(w.setOf("pool"), `{"metadata":{"annotations":{"drover-project.github.io/unfreeze":""}}}`)
		w.expect("pool", byHand)
		if s := w.setOf("pool"); len(s.Annotations[v1alpha1.AnnotationUnfreeze]) != 0 {
			t.Errorf("the annotation was not removed: %v", s.Annotations)
		}
		w.expect("pool", overshoot)
	})
	inOrder(t, "the freeze label is set again when an operator removes it (MCM-78)", func(t *testing.T) {
		w := in(t)
		w.patch(w.setOf("pool"), `{"metadata":{"labels":{"freeze":null}}}`)
		w.expect("pool", overshoot)
	})
	inOrder(t, "a frozen set deletes its surplus Machines, which ends the freeze (MCM-71, MCM-76)", func(t *testing.T) {
		w.sets.Store(true)
		in(t).expect("pool", free)
		in(t).eventually("three Machines", func() (string, bool) { return fmt.Sprint(w.living("pool")), w.living("pool") == 3 })
		if n := w.frozenSeries(); n != 0 {
			t.Errorf("the metric shows %d frozen objects", n)
		}
	})
	inOrder(t, "the freeze label is removed when an operator sets it on a deployment and a set that are not frozen (MCM-78)", func(t *testing.T) {
		w := in(t)
		w.patch(w.deployment("pool"), `{"metadata":{"labels":{"freeze":"True"}}}`)
		w.patch(w.setOf("pool"), `{"metadata":{"labels":{"freeze":"True"}}}`)
		w.expect("pool", free)
	})
	inOrder(t, "a large scale-down and the scale-up after it freeze nothing (MCM-73)", func(t *testing.T) {
		w := in(t)
		for _, n := range []int{30, 1, 25, 0, 12} {
			w.patch(w.deployment("other"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
			w.eventually(fmt.Sprint(n, " Machines"), func() (string, bool) { return fmt.Sprint(w.living("other")), w.living("other") == n })
		}
		w.expect("other", "")
	})
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
