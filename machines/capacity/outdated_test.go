package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestNodesWhoseSettingsDifferFromTheDeploymentsAnnotationsAreOutdated(t *testing.T) {
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
		"every node is up to date when its deployment has no kubelet annotations (F-36)":                                  {nil, node("250", "1", "1000Mi", "0"), false},
		"a node whose maximum number of pods differs from the deployment's annotation is outdated (F-36)":                 {map[string]string{"MaxPods": "50"}, node("110", "1600m", "3100Mi", "0"), true},
		"a node is up to date when its maximum number of pods is that in the deployment's annotation (F-36)":              {map[string]string{"MaxPods": "50"}, node("50", "1", "1000Mi", "0"), false},
		"a node whose reserved resources differ from the deployment's annotation is outdated (F-36)":                      {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "1600m", "3100Mi", "0"), true},
		"a node is up to date when its reserved resources are those in the deployment's annotation (F-36)":                {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "800m", "2376Mi", "0"), false},
		"a node with the reserved resources of the annotation is up to date although huge pages reduce its memory (F-36)": {map[string]string{"KubeReserved": "cpu=1,memory=1Gi"}, node("110", "800m", "2176Mi", "200Mi"), false},
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
				t.Errorf("outdated() = %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("the node template has the maximum number of pods from the annotation even when a node still has an older number (F-36)", func(t *testing.T) {
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
