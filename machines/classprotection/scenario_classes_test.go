package classprotection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/classprotection"
	"github.com/drover-project/drover/test/kube"
)

// world holds a client of a real control plane on which the class protection controller runs.
type world struct {
	*testing.T
	client client.Client
}

func newWorld(t *testing.T) *world {
	cluster := kube.ForTest(t, kube.Options{})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(t.Context(), c, "crds"); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := classprotection.New(classprotection.Options{Control: mgr}).SetupWithManager(mgr); err != nil {
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
	return &world{t, c}
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		if err := w.client.Create(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) delete(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		if err := w.client.Delete(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

// held reports whether the finalizer of class protection is the object's only finalizer.
func (w *world) held(o client.Object) bool {
	w.Helper()
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
	return len(o.GetFinalizers()) == 1 && o.GetFinalizers()[0] == v1alpha1.FinalizerInUse
}

// finalizers describes which objects are gone, and which finalizers the others have.
func (w *world) finalizers(objects ...client.Object) (state string) {
	w.Helper()
	for _, o := range objects {
		switch err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o); {
		case apierrors.IsNotFound(err):
			state += "gone "
		case err != nil:
			w.Fatal(err)
		default:
			state += fmt.Sprint(o.GetFinalizers(), " ")
		}
	}
	return state
}

// eventually waits until holds returns true. state describes the objects on which the result of holds depends.
func (w *world) eventually(what string, holds func() bool, state func() string) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.Fatalf("waiting until %s: %v; last seen: %s", what, err, state())
	}
}

// using returns a spec that uses a class.
func using(class *v1alpha1.MachineClass, namespace string) v1alpha1.MachineSpec {
	ref := &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Namespace: namespace, Name: class.Name}}
	return v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{MachineClass: ref}}}
}

func setUsing(name string, spec v1alpha1.MachineSpec) *v1alpha1.MachineSet {
	labels := map[string]string{"set": name}
	return &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1alpha1.MachineSetSpec{
		Replicas: new(int32(0)), Selector: metav1.LabelSelector{MatchLabels: labels},
		Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: labels}, Spec: spec},
	}}
}

func classNamed(namespace, name string) *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestMachineClassesAreProtectedFromDeletionWhileTheyAreUsed(t *testing.T) {
	w := newWorld(t)
	t.Run("a deleted class stays until the last Machine or MachineSet that uses it is deleted (MCM-5)", func(t *testing.T) { (&world{t, w.client}).classInUse() })
	t.Run("a MachineSet protects no class of another namespace when the operator has not allowed that namespace (F-11)", func(t *testing.T) { (&world{t, w.client}).foreignClass() })
}

func (w *world) classInUse() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "user-data", Namespace: "default"}}
	class := classNamed("default", "small")
	class.SecretRef = &corev1.SecretReference{Name: secret.Name}
	set := setUsing("classy", using(class, ""))
	users := []client.Object{set}
	for _, name := range []string{"one", "two"} {
		users = append(users, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: using(class, "")})
	}
	w.create(append(users, secret, class)...)
	state := func() string { return w.finalizers(class, secret) }
	w.eventually("the class has the finalizer", func() bool { return w.held(class) }, state)
	w.delete(class)
	for i, user := range users {
		if !w.held(class) {
			w.Fatalf("with %d users left: %s", len(users)-i, state())
		}
		w.delete(user)
	}
	w.eventually("the class is gone, and its Secret never had a finalizer (F-66)", func() bool { return state() == "gone [] " }, state)
}

// foreignClass makes a set use a class of another namespace.
func (w *world) foreignClass() {
	foreign, own := classNamed("kube-system", "not-theirs"), classNamed("default", "later")
	w.create(foreign, setUsing("user-of-foreign", using(foreign, foreign.Namespace)))
	// The controller has handled the foreign class by the time at which a class that was made later has its finalizer.
	w.create(own, setUsing("user-of-own", using(own, "")))
	w.eventually("another class has the finalizer", func() bool { return w.held(own) }, func() string { return w.finalizers(own) })
	if state := w.finalizers(foreign); state != "[] " {
		w.Errorf("the class of another namespace has the finalizer: %s", state)
	}
}
