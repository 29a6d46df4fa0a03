package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAMachineClassOverridesTheValuesOfTheFlavor(t *testing.T) {
	class := &v1alpha1.ClassNodeTemplate{
		Capacity:        corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("30")},
		VirtualCapacity: corev1.ResourceList{"example.com/fpga": resource.MustParse("2")},
		InstanceType:    "big", Region: "there", Zone: "z9", Architecture: ptr.To("amd64"),
	}
	got, err := rules.template(ofDeployment(deployment()), shape(), class)
	if err != nil {
		t.Fatal(err)
	}
	fpga := got.Allocatable["example.com/fpga"]
	if got.Capacity.Cpu().String() != "1" || got.Capacity.Pods().String() != "30" || got.Capacity.Memory().Value() != 4166118277 || fpga.String() != "2" {
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
	t.Run("the node template has the values of the MachineClass to which the Machine template refers", func(t *testing.T) {
		objects := append(pool("a", "", func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "c"}}}
		}), &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, NodeTemplate: class})
		template, err := ask(t, &catalog{shape: shape()}, "a", objects...)
		if err != nil || template.Capacity.Cpu().String() != "1" {
			t.Errorf("the template is %+v, error %v", template, err)
		}
	})
}
