package capacity

import (
	"errors"
	"maps"
	"strings"
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
func ask(t *testing.T, c *catalog, name string, objects ...client.Object) (resolved, *fault.Error) {
	t.Helper()
	return askIn(t, c, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, objects...)
}

// askIn returns the node template of the deployment with this namespace and name.
func askIn(t *testing.T, c *catalog, key client.ObjectKey, objects ...client.Object) (resolved, *fault.Error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kept := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	d := &v1alpha1.MachineDeployment{}
	if err := kept.Get(t.Context(), key, d); err != nil {
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
	t.Run("a group without a node uses the memory size that another group of its namespace has learned from its node", func(t *testing.T) {
		learned, err := ask(t, c, "a", pool("a", "3500Mi", nil)...)
		if err != nil {
			t.Fatal(err)
		}
		teacher := pool("a", "", func(d *v1alpha1.MachineDeployment) { d.Status.NodeTemplate = learned.NodeTemplate })
		with := func(change func(*v1alpha1.MachineDeployment)) []client.Object {
			return append(pool("b", "", change), teacher...)
		}
		pupil, err := ask(t, c, "b", with(nil)...)
		if err != nil || pupil.Allocatable.Memory().String() != "3500Mi" {
			t.Fatalf("%s of memory (%v)", pupil.Allocatable.Memory(), err)
		}
		t.Run("it does not pass on what it has not learned from a node of its own (F-91)", func(t *testing.T) {
			if pupil.LearnedFor != "" {
				t.Errorf("its status says that it has learned it: %q", pupil.LearnedFor)
			}
		})
		t.Run("the memory size is forgotten when no group of the namespace has such a node any more (F-91)", func(t *testing.T) {
			if got := memoryOf(t, c, "a", teacher...); got != computed {
				t.Errorf("%s of memory, want %s", got, computed)
			}
		})
		t.Run("a group of another namespace does not use the memory size (F-91)", func(t *testing.T) {
			other := pool("b", "", nil)
			for _, o := range other {
				o.SetNamespace("other")
			}
			got, err := askIn(t, c, client.ObjectKeyFromObject(other[0]), append(other, teacher...)...)
			if err != nil || got.Allocatable.Memory().String() != computed {
				t.Errorf("%s of memory (%v), want %s", got.Allocatable.Memory(), err, computed)
			}
		})
		for name, change := range map[string]func(*v1alpha1.MachineDeployment){
			"a group with another kubelet configuration does not use the memory size (CA-C103)": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Metadata.Annotations = map[string]string{"v1.kubelet-config.machine-controller.kubermatic.io/MaxPods": "50"}
			},
			"a group with another kubelet version does not use the memory size (CA-C103)": func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "1.36.2" },
			"a group with another image does not use the memory size (CA-C103)": func(d *v1alpha1.MachineDeployment) {
				d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProviderSpec":{"image":"other"}}`)}
			},
		} {
			t.Run(name, func(t *testing.T) {
				if got := memoryOf(t, c, "b", with(change)...); got != computed {
					t.Errorf("%s of memory, want %s", got, computed)
				}
			})
		}
		t.Run("a group with another flavor does not use the memory size (CA-C103)", func(t *testing.T) {
			larger := shape()
			larger.Flavor = "m1.large"
			if got := memoryOf(t, &catalog{shape: larger}, "b", with(nil)...); got != computed {
				t.Errorf("%s of memory, want %s", got, computed)
			}
		})
	})
}

func TestANodeReportsNoMoreAndHardlyLessThanItsFlavorAllows(t *testing.T) {
	c := &catalog{shape: shape()}
	for _, tc := range []struct {
		name string
		// capacity and allocatable are what the node reports, beside what pool says.
		capacity, allocatable corev1.ResourceList
		// want holds the resources of the node template, as lineOf writes them; refuted parts of the message, separated by |.
		want, refuted string
	}{
		{
			name:        "a node with 1m of CPU and 1 MiB of memory for pods changes nothing (F-91)",
			allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")},
			want:        "cpu=1600m ephemeral-storage=43Gi memory=3222399877 pods=110",
			refuted:     "node a-m reports allocatable cpu=1m (possible: from 80 % of 1600m to 2)|allocatable memory=1Mi",
		},
		{
			name:        "a node with more than its flavor changes nothing (F-91)",
			capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")},
			allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000")},
			want:        "cpu=1600m ephemeral-storage=43Gi memory=3222399877 pods=110",
			refuted:     "capacity cpu=64 (possible: from 80 % of 2 to 2)|allocatable cpu=64|allocatable memory=256Gi",
		},
		{
			name:        "an implausible value does not keep drover from using the others (F-91)",
			allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("3Gi")},
			want:        "cpu=1600m ephemeral-storage=43Gi memory=3Gi pods=110",
			refuted:     "allocatable cpu=1m",
		},
		{
			name:        "80 % of the computed resources are plausible (F-91)",
			allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1280m"), corev1.ResourceMemory: resource.MustParse("2577919902")},
			want:        "cpu=1280m ephemeral-storage=43Gi memory=2577919902 pods=110",
		},
		{
			name:        "everything that the flavor has is plausible (F-91)",
			capacity:    corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
			allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")},
			want:        "cpu=2 ephemeral-storage=43Gi memory=4Gi pods=110",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := pool("a", "3Gi", nil)
			status := &objects[3].(*corev1.Node).Status
			maps.Copy(status.Capacity, tc.capacity)
			maps.Copy(status.Allocatable, tc.allocatable)
			got, err := ask(t, c, "a", objects...)
			if err != nil {
				t.Fatal(err)
			}
			if line := lineOf(got.Allocatable); line != tc.want {
				t.Errorf("allocatable is %s, want %s", line, tc.want)
			}
			said := strings.Join(got.refuted, "\n")
			for part := range strings.SplitSeq(tc.refuted, "|") {
				if !strings.Contains(said, part) || tc.refuted == "" && said != "" {
					t.Errorf("refused: %q, want %q", said, part)
				}
			}
		})
	}
	t.Run("a resource that the flavor does not state is not taken from a node (F-91)", func(t *testing.T) {
		objects := pool("a", "3Gi", nil)
		objects[3].(*corev1.Node).Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("1Pi")
		without := shape()
		without.Disk = resource.Quantity{}
		got, err := ask(t, &catalog{shape: without}, "a", objects...)
		if _, there := got.Allocatable[corev1.ResourceEphemeralStorage]; there || err != nil {
			t.Errorf("allocatable is %v (%v)", got.Allocatable, err)
		}
	})
	t.Run("an Event names the node and the value once (F-91)", func(t *testing.T) {
		objects := pool("a", "1Mi", nil)
		b := newBenchInMemory(t)
		for _, o := range objects {
			o.SetUID("")
			o.SetResourceVersion("")
		}
		b.store(objects)
		d := objects[0].(*v1alpha1.MachineDeployment)
		b.reconcile(d)
		after, _ := b.reconcile(d)
		b.condition(after, metav1.ConditionTrue, reasonResolved, "node a-m reports allocatable memory=1Mi")
		if said := <-b.recorder.Events; !strings.Contains(said, reasonImplausible) || !strings.Contains(said, "node a-m") || len(b.recorder.Events) > 0 {
			t.Errorf("Event %q, and %d more", said, len(b.recorder.Events))
		}
	})
}
