package set_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// openCRDs is the path of a file with CRDs that accept a negative size.
const openCRDs = "../../deploy/testdata/open-crds.yaml"

func TestASetFollowsItsSpecOnARealControlPlane(t *testing.T) {
	cluster := kube.ForTest(t, kube.Options{})
	for _, args := range [][]string{{"apply", "-f", openCRDs}, {"wait", "--for=condition=Established", "--timeout=60s", "-f", openCRDs}} {
		if out, err := cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c := direct(t, cluster)
	eventually(t, "a set with a negative size", func() (string, bool) {
		err := c.Create(t.Context(), newSet("negative", -1))
		return fmt.Sprint(err), err == nil || apierrors.IsAlreadyExists(err)
	})
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	run(t, cluster)
	t.Run("sets a negative spec.replicas to the number of existing Machines, and creates no Machine", func(t *testing.T) {
		await(t, c, "negative", 0)
		if s := get(t, c, "negative"); s.Spec.Replicas == nil || *s.Spec.Replicas != 0 {
			t.Errorf("the size is %v", s.Spec.Replicas)
		}
	})
	t.Run("creates the Machines of a set without a deployment (MC-32)", func(t *testing.T) {
		if err := c.Create(t.Context(), newSet("many", 40)); err != nil {
			t.Fatal(err)
		}
		await(t, c, "many", 40)
	})
	t.Run("deletes the Machine in spec.removals, and restores spec.replicas after a client removed the field (CA-C88)", func(t *testing.T) {
		victim := machinesOf(t, c, "many")[7]
		patch(t, c, "many", fmt.Sprintf(`{"spec":{"replicas":39,"removals":[{"name":%q,"uid":%q,"time":%q}]}}`,
			victim.Name, victim.UID, metav1.Now().UTC().Format(time.RFC3339)))
		eventually(t, "the named Machine to be deleted", func() (string, bool) {
			m := &v1alpha1.Machine{}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(&victim), m)
			return fmt.Sprint(err, m.DeletionTimestamp), err == nil && !m.DeletionTimestamp.IsZero()
		})
		await(t, c, "many", 39)
		patch(t, c, "many", `{"spec":{"replicas":null}}`)
		eventually(t, "the size", func() (string, bool) {
			n := get(t, c, "many").Spec.Replicas
			return fmt.Sprint(n), n != nil && *n == 39
		})
		await(t, c, "many", 39)
	})
	t.Run("restores spec.placeholderSeries after a client removed the field (F-5)", func(t *testing.T) {
		patch(t, c, "many", `{"spec":{"placeholderSeries":4}}`)
		eventually(t, "the series in the status", func() (string, bool) {
			n := get(t, c, "many").Status.LastPlaceholderSeries
			return fmt.Sprint(n), n != nil && *n == 4
		})
		patch(t, c, "many", `{"spec":{"placeholderSeries":null}}`)
		eventually(t, "the series", func() (string, bool) {
			n := get(t, c, "many").Spec.PlaceholderSeries
			return fmt.Sprint(n), n != nil && *n == 4
		})
	})
	t.Run("creates a replacement for a failed Machine that is deleted (MC-33)", func(t *testing.T) {
		failed := machinesOf(t, c, "many")[3]
		phase, reason := v1alpha1.PhaseFailed, "JoinTimeout"
		failed.Status.Phase, failed.Status.ErrorReason = &phase, &reason
		if err := c.Update(t.Context(), &failed); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), &failed); err != nil {
			t.Fatal(err)
		}
		await(t, c, "many", 39)
	})
}

// The rules in this test do not depend on the real API server, so the subtests run in memory and in virtual time.
func TestASetFollowsItsSpec(t *testing.T) {
	for name, test := range map[string]func(*testing.T, client.Client){
		"restores an entry that a client removed from spec.removals, and deletes the Machine that the entry names (F-5)":            droppedRemoval,
		"counts ready and available Machines by their Nodes and minReadySeconds (MC-37, MCM-22a)":                                   followsNodes,
		"replaces Machines that left the set when their labels were removed, and is frozen when there are too many (MCM-35, MC-30)": released,
	} {
		t.Run(name, func(t *testing.T) {
			inHandover(t, "", func(h *handover) {
				h.lead.Store(true)
				test(h.T, h.admin)
			})
		})
	}
}

// droppedRemoval adds an entry to spec.removals and removes it again while the set is paused. The set must then restore the entry and
// delete the Machine that it names.
func droppedRemoval(t *testing.T, c client.Client) {
	if err := c.Create(t.Context(), newSet("dropping", 3)); err != nil {
		t.Fatal(err)
	}
	await(t, c, "dropping", 3)
	victim := machinesOf(t, c, "dropping")[1]
	patch(t, c, "dropping", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
	patch(t, c, "dropping", fmt.Sprintf(`{"spec":{"replicas":2,"removals":[{"name":%q,"uid":%q,"time":%q}]}}`,
		victim.Name, victim.UID, metav1.Now().UTC().Format(time.RFC3339)))
	patch(t, c, "dropping", `{"metadata":{"annotations":null},"spec":{"removals":null}}`)
	eventually(t, "the list", func() (string, bool) {
		all := get(t, c, "dropping").Spec.Removals
		return fmt.Sprint(all), len(all) == 1 && all[0].UID == victim.UID
	})
	eventually(t, "only the named Machine to be deleted", func() (string, bool) {
		var names []string
		for _, m := range machinesOf(t, c, "dropping") {
			names = append(names, m.Name)
		}
		return fmt.Sprint(names, " without ", victim.Name), len(names) == 2 && !slices.Contains(names, victim.Name)
	})
}

// released removes the labels of each Machine that a set creates, so that the set releases the Machine and creates another. It ends when
// the set is frozen.
func released(t *testing.T, c client.Client) {
	if err := c.Create(t.Context(), newSet("shedding", 1)); err != nil {
		t.Fatal(err)
	}
	stripped := 0
	eventually(t, "the set to stop", func() (string, bool) {
		for _, m := range machinesOf(t, c, "shedding") {
			err := c.Patch(t.Context(), &m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"set":null}}}`)))
			if err != nil {
				t.Fatal(err)
			}
			stripped++
		}
		set := get(t, c, "shedding")
		return fmt.Sprint(stripped, " stripped"), rollout.WhyFrozen(set.Status.Conditions) != "" && set.Labels[v1alpha1.LabelFreeze] == v1alpha1.Frozen
	})
	// The set may create a few Machines more than its limit of 4, because the cache may show the last Machines one reconcile later.
	if stripped < 3 || stripped > 6 {
		t.Errorf("%d Machines were created, want about 4, the limit of a set of 1", stripped)
	}
}

// direct returns a client without a cache.
func direct(t testing.TB, cluster *kube.Cluster) client.Client {
	t.Helper()
	config := *cluster.Config
	config.QPS = -1
	c, err := client.New(&config, client.Options{Scheme: kinds(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func kinds(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// run runs the controller until the test ends.
func run(t testing.TB, cluster *kube.Cluster) {
	t.Helper()
	config := *cluster.Config
	config.QPS = -1
	mgr, err := ctrl.NewManager(&config, ctrl.Options{Scheme: kinds(t), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: func() string { return rand.String(5) }}).SetupWithManager(mgr); err != nil {
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

// await waits until a set has exactly n living Machines and its status counts them.
func await(t testing.TB, c client.Client, name string, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d Machines", n), func() (string, bool) {
		s, living := get(t, c, name), len(machinesOf(t, c, name))
		return fmt.Sprintf("%d Machines, %+v", living, s.Status), living == int(n) && s.Status.Replicas == n && s.Status.ObservedGeneration == s.Generation
	})
}

func get(t testing.TB, c client.Client, name string) *v1alpha1.MachineSet {
	t.Helper()
	s := &v1alpha1.MachineSet{}
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// machinesOf returns the living Machines of a set.
func machinesOf(t testing.TB, c client.Client, name string) (living []v1alpha1.Machine) {
	t.Helper()
	var machines v1alpha1.MachineList
	if err := c.List(t.Context(), &machines, client.MatchingLabels{"set": name}); err != nil {
		t.Fatal(err)
	}
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp.IsZero() {
			living = append(living, machines.Items[i])
		}
	}
	return living
}

func patch(t testing.TB, c client.Client, name, body string) {
	t.Helper()
	if err := c.Patch(t.Context(), newSet(name, 0), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, see func() (string, bool)) {
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

// followsNodes checks that the set's status follows the Ready conditions of its Machines within seconds, and that a Machine counts as
// available when it has been Ready for exactly minReadySeconds.
func followsNodes(t *testing.T, c client.Client) {
	const least = 3
	s := newSet("following", 2)
	s.Spec.MinReadySeconds = least
	if err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	await(t, c, "following", 2)
	say := func(m *v1alpha1.Machine, status corev1.ConditionStatus, at metav1.Time) {
		t.Helper()
		base := m.DeepCopy()
		m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: &at}}
		if err := c.Patch(t.Context(), m, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(what string, ready, available int32) time.Time {
		t.Helper()
		began := time.Now()
		eventually(t, what, func() (string, bool) {
			st := get(t, c, "following").Status
			return fmt.Sprintf("%d ready, %d available", st.ReadyReplicas, st.AvailableReplicas), st.ReadyReplicas == ready && st.AvailableReplicas == available
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %v", what, took)
		}
		return time.Now()
	}
	machines := machinesOf(t, c, "following")
	since := metav1.Now().Rfc3339Copy()
	say(&machines[0], corev1.ConditionTrue, since)
	shows("one Machine is Ready, and none available yet", 1, 0)
	if at := shows("the Machine is available", 1, 1); at.Before(since.Add(least * time.Second)) {
		t.Errorf("the Machine was available %v after it was Ready", at.Sub(since.Time))
	}
	say(&machines[1], corev1.ConditionTrue, metav1.NewTime(since.Add(-time.Hour)))
	shows("a Machine that has long been Ready is available at once", 2, 2)
	say(&machines[0], corev1.ConditionUnknown, metav1.Now())
	shows("a Machine whose node does not answer is neither", 1, 1)
}
