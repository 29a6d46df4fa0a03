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
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/test/kube"
)

// openCRDs are definitions that let a negative size in.
const openCRDs = "../../deploy/testdata/open-crds.yaml"

func TestASetOnARealControlPlane(t *testing.T) {
	cluster := kube.ForTest(t, kube.Options{})
	for _, args := range [][]string{{"apply", "-f", openCRDs}, {"wait", "--for=condition=Established", "--timeout=60s", "-f", openCRDs}} {
		if out, err := cluster.Kubectl(t.Context(), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c := direct(t, cluster)
	eventually(t, "a set of a negative size", func() (string, bool) {
		err := c.Create(t.Context(), newSet("negative", -1))
		return fmt.Sprint(err), err == nil || apierrors.IsAlreadyExists(err)
	})
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	run(t, cluster)
	t.Run("a negative size that was stored becomes as many as there are, and none is made", func(t *testing.T) {
		await(t, c, "negative", 0)
		if s := get(t, c, "negative"); s.Spec.Replicas == nil || *s.Spec.Replicas != 0 {
			t.Errorf("the size is %v", s.Spec.Replicas)
		}
	})
	t.Run("MC-32 a set without a deployment makes its Machines", func(t *testing.T) {
		if err := c.Create(t.Context(), newSet("many", 40)); err != nil {
			t.Fatal(err)
		}
		await(t, c, "many", 40)
	})
	t.Run("CA-C88 design §3 a bare set lets what is listed go, and puts back a size that is dropped", func(t *testing.T) {
		victim := machinesOf(t, c, "many")[7]
		patch(t, c, "many", fmt.Sprintf(`{"spec":{"replicas":39,"removals":[{"name":%q,"uid":%q,"time":%q}]}}`,
			victim.Name, victim.UID, metav1.Now().UTC().Format(time.RFC3339)))
		eventually(t, "the listed one to be deleted", func() (string, bool) {
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
	t.Run("a removal that a client drops with the whole spec around it is carried out, and comes back (F-5)", func(t *testing.T) { droppedRemoval(t, c) })
	t.Run("a placeholder series that a client drops comes back (F-5)", func(t *testing.T) {
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
	t.Run("MC-33 a failed Machine that is deleted is replaced at the same size", func(t *testing.T) {
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
	t.Run("MC-37 MCM-22a ready and available follow the nodes, and count minReadySeconds", func(t *testing.T) { follows(t, c) })
	t.Run("MCM-35 MC-30 what is released is replaced, and counts towards the ceiling", func(t *testing.T) { released(t, c) })
	t.Run("MCM-5 a class in use and its Secret stay, and go with their last user", func(t *testing.T) { classInUse(t, c) })
	t.Run("a class or Secret of another namespace is not held by users that may not use it (F-11)", func(t *testing.T) { foreignClass(t, c) })
}

// droppedRemoval drops a removal before the set, which is paused until then, has seen it.
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
	eventually(t, "the named Machine to go, and no other", func() (string, bool) {
		var names []string
		for _, m := range machinesOf(t, c, "dropping") {
			names = append(names, m.Name)
		}
		return fmt.Sprint(names, " without ", victim.Name), len(names) == 2 && !slices.Contains(names, victim.Name)
	})
}

// released takes the labels off every Machine of a set again and again.
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
		reason := get(t, c, "shedding").Status.ErrorReason
		return fmt.Sprint(stripped, " stripped"), reason != nil && *reason == "TooManyMachines"
	})
	// The cache may show the last ones a look later.
	if stripped < 11 || stripped > 14 {
		t.Errorf("%d Machines were made, 12 is the ceiling of a set of 1", stripped)
	}
	if st := get(t, c, "shedding").Status; st.ErrorMessage == nil || len(st.Conditions) != 2 {
		t.Errorf("the status is %+v", st)
	}
}

func classInUse(t *testing.T, c client.Client) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "user-data", Namespace: "default"}}
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: "default"}, SecretRef: &corev1.SecretReference{Name: secret.Name}}
	for _, o := range []client.Object{secret, class} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	user := newSet("classy", 2)
	user.Spec.Template.Spec.ProviderSpec = v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{
		MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: class.Name}},
	}}
	if err := c.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	await(t, c, "classy", 2)
	eventually(t, "class and Secret to be held", func() (string, bool) { return seen(t, c, class, secret), held(t, c, class) && held(t, c, secret) })
	for _, o := range []client.Object{secret, class, user} {
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	letGo := func(o client.Object) {
		if err := c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	letGo(user)
	machines := machinesOf(t, c, "classy")
	for i := range machines {
		if !held(t, c, class) || !held(t, c, secret) {
			t.Fatalf("with %d Machines left: %s", len(machines)-i, seen(t, c, class, secret))
		}
		if err := c.Delete(t.Context(), &machines[i]); err != nil {
			t.Fatal(err)
		}
		letGo(&machines[i])
	}
	eventually(t, "class and Secret to go", func() (string, bool) {
		state := seen(t, c, class, secret)
		return state, state == "gone gone "
	})
}

// foreignClass has a set use a class of another namespace, and a class of its own that names a Secret of another namespace.
func foreignClass(t *testing.T, c client.Client) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "not-theirs", Namespace: "kube-system"}}
	foreign := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "not-theirs", Namespace: "kube-system"}}
	own := &v1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Name: "greedy", Namespace: "default"}, SecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: secret.Name},
	}
	for _, o := range []client.Object{secret, foreign, own} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range []*v1alpha1.MachineClass{foreign, own} {
		user := newSet("user-of-"+class.Name, 0)
		user.Spec.Template.Spec.ProviderSpec = v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{
			MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Namespace: class.Namespace, Name: class.Name}},
		}}
		if err := c.Create(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the own class to be held", func() (string, bool) { return seen(t, c, own), held(t, c, own) })
	// What the set's own class names comes right after it.
	later := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "later", Namespace: "default"}}
	user := newSet("user-of-later", 0)
	user.Spec.Template.Spec.ProviderSpec = v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{
		MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: later.Name}},
	}}
	for _, o := range []client.Object{later, user} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "another class to be held", func() (string, bool) { return seen(t, c, later), held(t, c, later) })
	if state := seen(t, c, foreign, secret); state != "[] [] " {
		t.Errorf("class and Secret of another namespace are held: %s", state)
	}
}

func held(t *testing.T, c client.Client, o client.Object) bool {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return len(o.GetFinalizers()) == 1 && o.GetFinalizers()[0] == v1alpha1.FinalizerInUse
}

// seen says which objects are gone, and which finalizers the others have.
func seen(t *testing.T, c client.Client, objects ...client.Object) (state string) {
	t.Helper()
	for _, o := range objects {
		switch err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); {
		case apierrors.IsNotFound(err):
			state += "gone "
		case err != nil:
			t.Fatal(err)
		default:
			state += fmt.Sprint(o.GetFinalizers(), " ")
		}
	}
	return state
}

// direct is a client without a cache.
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
	mgr, err := ctrl.NewManager(&config, ctrl.Options{Scheme: kinds(t), Metrics: server.Options{BindAddress: "0"}, Client: client.Options{
		Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}},
	}})
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

// await waits until a set counts as many living Machines as wanted, and holds that there are no more.
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

// machinesOf are the living Machines of a set.
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
