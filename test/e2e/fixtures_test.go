//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/fixtures"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// otherClouds is the prefix of the names of the fixtures for clouds other than OpenStack.
const otherClouds = "other-"

// bootstrapRole is the ClusterRole that lets a holder of a bootstrap token request a kubelet's certificate.
const bootstrapRole = "system:node-bootstrapper"

// takenOver is an object from a fixture. The test creates it in the sandbox, as if drover took it over from another
// cluster.
type takenOver struct {
	file string
	// variant is a part of the object's name: the writer of the user data, or the operating system.
	variant string
	values  fixtures.Values
	// managed reports whether operating-system-manager writes the user data.
	managed bool
	object  *unstructured.Unstructured
}

func (f *takenOver) name() string { return f.file + "-" + f.variant }

// variants returns the variants in which a fixture is tested.
func variants(file string) []*takenOver {
	var values fixtures.Values
	if file == "machine-controller-networks" {
		values = fixtures.TwoNetworks()
	}
	all := []*takenOver{{file: file, variant: "own", values: values}}
	if strings.HasPrefix(file, otherClouds) {
		return all
	}
	if file != "machine-controller-machine" && file != "metakube-set" {
		all = append(all, &takenOver{file: file, variant: "managed", values: values, managed: true})
	}
	if file == "machine-controller-deployment" {
		all = append(all, &takenOver{file: file, variant: "flatcar", values: fixtures.Values{
			fixtures.System: "flatcar", fixtures.Image: openstack.MetaKubeFlatcar,
		}})
	}
	return all
}

// foreign is a sandbox with objects of other clusters.
type foreign struct {
	s    *sandbox.Sandbox
	join fixtures.Join
}

func TestWhatBecomesOfMachineObjectsFromOtherClusters(t *testing.T) {
	t.Parallel()
	s := sandbox.ForTest(t, sandbox.Options{Drover: drover, NoAutoscaler: true, BootTime: time.Second, Seed: fixtures.Seed})
	demo, err := scenario.NewDemo(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &foreign{s: s, join: fixtures.Join{
		Server: s.Cluster.Config.Host, Authority: s.Cluster.Config.CAData, Kubelet: demo.Group.Spec.Template.Spec.Versions.Kubelet,
	}}
	w.permit(t)
	names, err := fixtures.Names()
	if err != nil {
		t.Fatal(err)
	}
	var all []*takenOver
	for _, file := range names {
		all = append(all, variants(file)...)
	}
	// Create everything before waiting for anything, so that all servers boot in parallel.
	for _, f := range all {
		w.create(t, f)
	}
	for _, f := range all {
		w.createPod(t, f)
	}
	for _, f := range all {
		if strings.HasPrefix(f.file, otherClouds) {
			t.Run("the Machine of the object "+f.name()+" reports that its cloud is not supported, and no server is created (F-40)", func(t *testing.T) { w.isRefused(t, f) })
			continue
		}
		t.Run("the object "+f.name()+" becomes a Ready node without the startup taint, on which a pod runs (F-35, F-37)", func(t *testing.T) { w.joins(t, f) })
	}
}

// permit creates the bindings that the documentation names: drover may read what the fixtures refer to, and a token of
// operating-system-manager may request a certificate.
func (w *foreign) permit(t *testing.T) {
	t.Helper()
	namespace, _ := fixtures.ManagerSecrets(&unstructured.Unstructured{Object: map[string]any{}}, w.join)
	objects := []client.Object{namespace, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operating-system-manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bootstrapRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fixtures.ManagerGroup}},
	}}
	for _, o := range objects {
		if err := w.s.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := w.s.Cluster.Kubectl(t.Context(), "apply", "-f", manifests+"/operating-system-manager/references.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// create stores a fixture as kubectl does, with unknown fields refused.
func (w *foreign) create(t *testing.T, f *takenOver) {
	t.Helper()
	values := fixtures.ValuesOf(w.s.Cloud, w.join.Kubelet)
	values[fixtures.Name] = f.name()
	maps.Copy(values, f.values)
	objects, err := fixtures.Read(f.file, values)
	if err != nil {
		t.Fatal(err)
	}
	f.object = objects[len(objects)-1]
	fixtures.WithoutManager(f.object)
	var all []client.Object
	if f.managed {
		fixtures.WithManager(f.object)
		_, secrets := fixtures.ManagerSecrets(f.object, w.join)
		for _, secret := range secrets {
			all = append(all, secret)
		}
	}
	for _, o := range objects {
		all = append(all, o.DeepCopy())
	}
	strict := client.WithFieldValidation(w.s.Client, metav1.FieldValidationStrict)
	for _, o := range all {
		if err := strict.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %s of %s: %v", o.GetName(), f.name(), err)
		}
	}
}

// machine returns the only Machine of a fixture. If there is not exactly one, missing says how many there are.
func (w *foreign) machine(ctx context.Context, f *takenOver) (m v1alpha1.Machine, missing string, err error) {
	var list v1alpha1.MachineList
	if err := w.s.Client.List(ctx, &list, client.InNamespace(f.object.GetNamespace())); err != nil {
		return m, "", err
	}
	own := slices.DeleteFunc(list.Items, func(m v1alpha1.Machine) bool {
		return m.Name != f.name() && !strings.HasPrefix(m.Name, f.name()+"-")
	})
	if len(own) != 1 {
		return m, fmt.Sprintf("one Machine of %s; there are %d", f.name(), len(own)), nil
	}
	return own[0], "", nil
}

// createPod creates a pod that runs only on the node of a fixture's Machine. It tolerates the fixtures' own taint.
func (w *foreign) createPod(t *testing.T, f *takenOver) {
	t.Helper()
	eventually(t, func(ctx context.Context) (string, error) {
		m, missing, err := w.machine(ctx, f)
		if missing != "" || err != nil {
			return missing, err
		}
		err = w.s.Client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: f.name(), Namespace: corev1.NamespaceDefault},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{corev1.LabelHostname: m.ServerName()},
				Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
				Containers:   []corev1.Container{{Name: "c", Image: "example.invalid/c"}},
			},
		})
		if apierrors.IsForbidden(err) {
			return "a pod of " + f.name() + ": " + err.Error(), nil
		}
		return "", err
	})
}

// joins waits until the fixture's Machine has a usable node and its pod runs there.
func (w *foreign) joins(t *testing.T, f *takenOver) {
	eventually(t, func(ctx context.Context) (string, error) {
		m, missing, err := w.machine(ctx, f)
		if missing != "" || err != nil {
			return missing, err
		}
		state := fmt.Sprintf("; Machine %s: error %q, conditions %+v", m.Name, ptr.Deref(m.Status.ErrorMessage, ""), m.Status.Conditions)
		if m.Status.NodeRef == nil {
			return "the Machine's node" + state, nil
		}
		var node corev1.Node
		if err := w.s.Client.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, &node); err != nil {
			return "", err
		}
		if !sandbox.UsableNode(&node) {
			return fmt.Sprintf("Ready without the startup taint: %+v %+v", node.Spec.Taints, node.Status.Conditions), nil
		}
		var pod corev1.Pod
		if err := w.s.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: f.name()}, &pod); err != nil {
			return "", err
		}
		if server := w.server(&m); f.managed && string(server.UserData) != w.managedUserData(f, server.Name) {
			return "operating-system-manager's user data on the server: it is " + string(server.UserData), nil
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != node.Name {
			return fmt.Sprintf("the pod running on node %s: it is %s on node %q", node.Name, pod.Status.Phase, pod.Spec.NodeName), nil
		}
		return "", nil
	})
}

// server returns the server of a Machine.
func (w *foreign) server(m *v1alpha1.Machine) openstack.Server {
	id := ptr.Deref(m.Spec.ProviderID, "")
	server, _ := w.s.Cloud.Server(id[strings.LastIndex(id, "/")+1:])
	return server
}

// managedUserData returns the user data that operating-system-manager gives to a fixture's server.
func (w *foreign) managedUserData(f *takenOver, server string) string {
	return strings.ReplaceAll(fixtures.ManagedUserData(f.object, w.join), "<MACHINE_NAME>", server)
}

// isRefused waits until the Machine says that its cloud is not supported, and checks that no server was created for it.
func (w *foreign) isRefused(t *testing.T, f *takenOver) {
	says := "cloudProvider " + strings.TrimPrefix(f.file, otherClouds) + " is not supported by drover; supported: openstack"
	eventually(t, func(ctx context.Context) (string, error) {
		m, missing, err := w.machine(ctx, f)
		if missing != "" || err != nil {
			return missing, err
		}
		if got := ptr.Deref(m.Status.ErrorMessage, ""); !strings.HasSuffix(got, says) {
			return fmt.Sprintf("the error %q; it is %q", says, got), nil
		}
		return "", nil
	})
	for _, server := range w.s.Cloud.Servers() {
		if strings.HasPrefix(server.Name, f.name()) {
			t.Errorf("there is a server %s", server.Name)
		}
	}
}
