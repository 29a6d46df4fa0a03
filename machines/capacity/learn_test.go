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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// pool is a deployment with a set of its template, and a Machine with a Ready node of that memory.
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

// ask resolves the template of a deployment among these objects.
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

func TestRealNodesTeachWhatTheyHave(t *testing.T) {
	const computed = "3222399877"
	c := &catalog{shape: shape()}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"CA-C99 without a node it is computed", pool("a", "", nil), computed},
		{"CA-C99 a node of the group", pool("a", "3500Mi", nil), "3500Mi"},
		{"CA-C99 a node of an older template teaches nothing", func() []client.Object {
			objects := pool("a", "3500Mi", nil)
			objects[0].(*v1alpha1.MachineDeployment).Spec.Template.Spec.Versions.Kubelet = "1.36.2"
			return objects
		}(), computed},
		{"a node that is not Ready teaches nothing", func() []client.Object {
			objects := pool("a", "3500Mi", nil)
			objects[3].(*corev1.Node).Status.Conditions[0].Status = corev1.ConditionUnknown
			return objects
		}(), computed},
		{"what people have said is not learned", pool("a", "3500Mi", func(d *v1alpha1.MachineDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "memory": "4Gi"}
		}), computed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := memoryOf(t, c, "a", tc.objects...); got != tc.want {
				t.Errorf("%s of memory, want %s", got, tc.want)
			}
		})
	}
	t.Run("what was learned stays when the last node has gone", func(t *testing.T) {
		learned, err := ask(t, c, "a", pool("a", "3500Mi", nil)...)
		if err != nil {
			t.Fatal(err)
		}
		remembering := func(d *v1alpha1.MachineDeployment) { d.Status.NodeTemplate = learned }
		if got := memoryOf(t, c, "a", pool("a", "", remembering)...); got != "3500Mi" {
			t.Errorf("%s of memory", got)
		}
		t.Run("and serves another deployment of the same kind", func(t *testing.T) {
			if got := memoryOf(t, c, "b", append(pool("a", "", remembering), pool("b", "", nil)...)...); got != "3500Mi" {
				t.Errorf("%s of memory", got)
			}
		})
		for name, change := range map[string]func(*v1alpha1.MachineDeployment){
			"reservations": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Metadata.Annotations = map[string]string{"v1.kubelet-config.machine-controller.kubermatic.io/MaxPods": "50"}
			},
			"the kubelet": func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "1.36.2" },
			"the image": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProviderSpec":{"image":"other"}}`)}
			},
		} {
			t.Run("CA-C103 it is dropped when these change: "+name, func(t *testing.T) {
				objects := pool("a", "", func(d *v1alpha1.MachineDeployment) {
					remembering(d)
					change(d)
				})
				if got := memoryOf(t, c, "a", objects...); got != computed {
					t.Errorf("%s of memory, want %s", got, computed)
				}
			})
		}
		t.Run("CA-C103 it is dropped when the flavor changes", func(t *testing.T) {
			larger := shape()
			larger.Flavor = "m1.large"
			if got := memoryOf(t, &catalog{shape: larger}, "a", pool("a", "", remembering)...); got != computed {
				t.Errorf("%s of memory, want %s", got, computed)
			}
		})
	})
}

func TestWhenTheCloudCannotBeAsked(t *testing.T) {
	away := fault.New(fault.Transient, fault.CodeCloudUnavailable, "no answer")
	s := ofDeployment(deployment())
	known, err := rules.template(s, shape(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.known = known.NodeTemplate
	if v := judge(s, nil, away); v.template != s.known {
		t.Error("the last answer for the same template is dropped")
	}
	t.Run("CA-C103 the answer for another template is not kept", func(t *testing.T) {
		s.template.Spec.Versions.Kubelet = "1.36.2"
		if v := judge(s, nil, away); v.template != nil || v.condition.Status != metav1.ConditionFalse {
			t.Errorf("the verdict is %+v", v)
		}
	})
}

func TestAClassSaysMoreThanItsFlavor(t *testing.T) {
	class := &v1alpha1.ClassNodeTemplate{
		Capacity:        corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("30")},
		VirtualCapacity: corev1.ResourceList{"example.com/fpga": resource.MustParse("2")},
		InstanceType:    "big", Region: "there", Zone: "z9", Architecture: ptr.To("amd64"),
	}
	got, err := rules.template(ofDeployment(deployment()), shape(), class)
	if err != nil {
		t.Fatal(err)
	}
	fpga := got.Allocatable["example.com/fpga"]
	if got.Capacity.Cpu().String() != "8" || got.Capacity.Pods().String() != "30" || got.Capacity.Memory().Value() != 4166118277 || fpga.String() != "2" {
		t.Errorf("the capacity is %v", got.Capacity)
	}
	for key, want := range map[string]string{
		corev1.LabelInstanceTypeStable: "big", corev1.LabelTopologyRegion: "there", corev1.LabelTopologyZone: "z9",
		zoneLabel: "z9", corev1.LabelArchStable: "amd64",
	} {
		if got.Labels[key] != want {
			t.Errorf("CA-C101 label %s is %q, want %q", key, got.Labels[key], want)
		}
	}
	t.Run("it is found by the template's reference", func(t *testing.T) {
		objects := append(pool("a", "", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "c"}}}
		}), &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, NodeTemplate: class})
		template, err := ask(t, &catalog{shape: shape()}, "a", objects...)
		if err != nil || template.Capacity.Cpu().String() != "8" {
			t.Errorf("the template is %+v, error %v", template, err)
		}
	})
}

func TestGPUs(t *testing.T) {
	for _, want := range []int64{0, 2} {
		of := shape()
		of.GPUs = want
		got := resolve(t, deployment(), of).Allocatable[DefaultGPUResource]
		if got.Value() != want {
			t.Errorf("%s GPUs, want %d", got.String(), want)
		}
	}
}

func TestTheKernelsShareCanBeSet(t *testing.T) {
	ten := rules
	ten.KernelMemory = 10
	got, err := ten.template(ofDeployment(deployment()), shape(), nil)
	// 4096 MiB - 409.6 - 300 - 500 - 100.
	if err != nil || got.Allocatable.Memory().Value() != 2921752166 {
		t.Errorf("%s of memory, error %v", got.Allocatable.Memory(), err)
	}
}

func TestABareSetHasATemplateToo(t *testing.T) {
	s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bare"}}
	s.Spec.Template = deployment().Spec.Template
	got, err := rules.template(ofSet(s), cloud.Shape{Flavor: "m1.small", CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")}, nil)
	if err != nil || got.Labels[corev1.LabelInstanceTypeStable] != "m1.small" {
		t.Errorf("the template is %+v, error %v", got, err)
	}
}
