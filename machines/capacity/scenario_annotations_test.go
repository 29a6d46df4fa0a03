package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const kubeletConfig = "v1.kubelet-config.machine-controller.kubermatic.io/"

func TestTheKubeletAnnotationsOfTheMachineDeployment(t *testing.T) {
	for name, tc := range map[string]struct {
		deployment, template map[string]string
		want                 string
	}{
		"they set the node template (F-36)": {
			map[string]string{kubeletConfig + "MaxPods": "50", kubeletConfig + "KubeReserved": "cpu=500m,memory=1Gi"}, nil,
			// 4096 MiB - 122.88 - 1024 - 500 - 100.
			"cpu=1300m ephemeral-storage=44Gi memory=2463230853 pods=50",
		},
		"the template's have precedence (F-36)": {
			map[string]string{kubeletConfig + "MaxPods": "50"}, map[string]string{kubeletConfig + "MaxPods": "70"},
			"cpu=1600m ephemeral-storage=43Gi memory=3222399877 pods=70",
		},
		"operating-system-manager's groups have its defaults (F-36)": {
			map[string]string{"k8c.io/operating-system-profile": "osp-ubuntu"}, map[string]string{kubeletConfig + "MaxPods": "70"},
			// 4096 MiB - 122.88 - 200 - 200 - 100.
			"cpu=1600m ephemeral-storage=43Gi memory=3641830277 pods=110",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment()
			d.Annotations, d.Spec.Template.Metadata.Annotations = tc.deployment, tc.template
			if got := lineOf(resolve(t, d, shape()).Allocatable); got != tc.want {
				t.Errorf("allocatable is %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("those of a MachineSet set its node template (F-36)", func(t *testing.T) {
		s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubeletConfig + "MaxPods": "50"}}}
		s.Spec.Template = deployment().Spec.Template
		got, err := rules.template(ofSet(s), shape(), nil)
		if err != nil || got.Capacity.Pods().Value() != 50 {
			t.Errorf("error %v, template %+v", err, got)
		}
	})
}

func TestNodesThatAreOlderThanTheAnnotations(t *testing.T) {
	node := func(pods, cpu, memory, hugePages string) *corev1.Node {
		n := &corev1.Node{}
		n.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4000Mi"), corev1.ResourcePods: resource.MustParse(pods),
			corev1.ResourceHugePagesPrefix + "2Mi": resource.MustParse(hugePages),
		}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return n
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		node        *corev1.Node
		want        bool
	}{
		"without annotations every node shows what it has (F-36)": {nil, node("250", "1", "1000Mi", "0"), false},
		"other pods than annotated (F-36)":                        {map[string]string{"MaxPods": "50"}, node("110", "1600m", "3100Mi", "0"), true},
		"the annotated pods (F-36)":                               {map[string]string{"MaxPods": "50"}, node("50", "1", "1000Mi", "0"), false},
		"other reservations than annotated (F-36)":                {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "1600m", "3100Mi", "0"), true},
		"the annotated reservations (F-36)":                       {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "800m", "2376Mi", "0"), false},
		"the annotated reservations and huge pages (F-36)":        {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "800m", "2176Mi", "200Mi"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{}
			for key, value := range tc.annotations {
				d.Annotations[kubeletConfig+key] = value
			}
			template, err := rules.template(ofDeployment(d), shape(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := outdated(tc.node, template.settings); got != tc.want {
				t.Errorf("outdated is %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("the group's template shows the annotated pods, not those of its nodes (F-36)", func(t *testing.T) {
		objects := pool("a", "3500Mi", func(d *v1alpha1.MachineDeployment) {
			d.Annotations = map[string]string{kubeletConfig + "MaxPods": "50"}
		})
		objects[3].(*corev1.Node).Status.Capacity[corev1.ResourcePods] = resource.MustParse("110")
		objects[3].(*corev1.Node).Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		template, err := ask(t, &catalog{shape: shape()}, "a", objects...)
		if err != nil || template.Allocatable.Pods().Value() != 50 {
			t.Errorf("error %v, template %+v", err, template)
		}
	})
}
