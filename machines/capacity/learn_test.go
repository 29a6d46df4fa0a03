package capacity

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// pool returns a deployment, its set, and a Machine with a Ready node that has the given allocatable memory. With an empty
// memory it returns neither Machine nor node.
func pool(name, memory string, change func(*v1alpha1.MachineDeployment)) []client.Object {
	d := deployment()
	d.Name, d.UID = name, types.UID(name)
	if change != nil {
		change(d)
	}
	s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name + "-1", UID: types.UID(name + "-1")}}
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}
	s.Spec.Template = *d.Spec.Template.DeepCopy()
	objects := []client.Object{d, s}
	if memory == "" {
		return objects
	}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name + "-m", UID: types.UID(name + "-m")}}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, v1alpha1.MachineSetKind)}
	m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4000Mi")}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1600m"), corev1.ResourceMemory: resource.MustParse(memory)}
	return append(objects, m, n)
}

// ask returns the node template of a deployment, in a cluster that contains the given objects.
func ask(t *testing.T, c *catalog, name string, objects ...client.Object) (*v1alpha1.NodeTemplate, *fault.Error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kept := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	d := &v1alpha1.MachineDeployment{}
	if err := kept.Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: name}, d); err != nil {
		t.Fatal(err)
	}
	return newReconciler(Options{Cloud: c}, kept, events.NewFakeRecorder(10)).template(t.Context(), ofDeployment(d))
}

func memoryOf(t *testing.T, c *catalog, name string, objects ...client.Object) string {
	t.Helper()
	template, err := ask(t, c, name, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return template.Allocatable.Memory().String()
}

func TestTheMemoryOfANodeTemplateIsLearnedFromRealNodes(t *testing.T) {
	const computed = "3222399877"
	c := &catalog{shape: shape()}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"memory is computed from the flavor while the group has no node (CA-C99)", pool("a", "", nil), computed},
		{"memory is taken from a node of the group (CA-C99)", pool("a", "3500Mi", nil), "3500Mi"},
		{"memory of a node that was made from an older Machine template is ignored (CA-C99)", func() []client.Object {
			objects := pool("a", "3500Mi", nil)
			objects[0].(*v1alpha1.MachineDeployment).Spec.Template.Spec.Versions.Kubelet = "1.36.2"
			return objects
		}(), computed},
		{"memory of a node that is not Ready is ignored", func() []client.Object {
			objects := pool("a", "3500Mi", nil)
			objects[3].(*corev1.Node).Status.Conditions[0].Status = corev1.ConditionUnknown
			return objects
		}(), computed},
		{"memory of nodes is ignored when an annotation sets the memory", pool("a", "3500Mi", func(d *v1alpha1.MachineDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "memory": "4Gi"}
		}), computed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := memoryOf(t, c, "a", tc.objects...); got != tc.want {
				t.Errorf("%s of memory, want %s", got, tc.want)
			}
		})
	}
	t.Run("without a node, a memory size that was learned earlier is used until the settings change", func(t *testing.T) {
		learned, err := ask(t, c, "a", pool("a", "3500Mi", nil)...)
		if err != nil {
			t.Fatal(err)
		}
		remembering := func(d *v1alpha1.MachineDeployment) { d.Status.NodeTemplate = learned }
		if got := memoryOf(t, c, "a", pool("a", "", remembering)...); got != "3500Mi" {
			t.Errorf("%s of memory", got)
		}
		t.Run("a second deployment with the same settings uses the memory size that the first has learned", func(t *testing.T) {
			if got := memoryOf(t, c, "b", append(pool("a", "", remembering), pool("b", "", nil)...)...); got != "3500Mi" {
				t.Errorf("%s of memory", got)
			}
		})
		for name, change := range map[string]func(*v1alpha1.MachineDeployment){
			"the learned memory size is dropped when the kubelet configuration changes (CA-C103)": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Metadata.Annotations = map[string]string{"v1.kubelet-config.machine-controller.kubermatic.io/MaxPods": "50"}
			},
			"the learned memory size is dropped when the kubelet version changes (CA-C103)": func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "1.36.2" },
			"the learned memory size is dropped when the image changes (CA-C103)": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProviderSpec":{"image":"other"}}`)}
			},
		} {
			t.Run(name, func(t *testing.T) {
				objects := pool("a", "", func(d *v1alpha1.MachineDeployment) {
					remembering(d)
					change(d)
				})
				if got := memoryOf(t, c, "a", objects...); got != computed {
					t.Errorf("%s of memory, want %s", got, computed)
				}
			})
		}
		t.Run("the learned memory size is dropped when the flavor changes (CA-C103)", func(t *testing.T) {
			larger := shape()
			larger.Flavor = "m1.large"
			if got := memoryOf(t, &catalog{shape: larger}, "a", pool("a", "", remembering)...); got != computed {
				t.Errorf("%s of memory, want %s", got, computed)
			}
		})
	})
}
