package capacity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestCapacityAnnotationsOverrideTheFlavor(t *testing.T) {
	d := deployment()
	d.Annotations = map[string]string{}
	for name, value := range map[string]string{
		"cpu": "8", "memory": "16Gi", "ephemeral-disk": "100Gi", "maxPods": "60", "gpu-type": "nvidia.com/gpu", "gpu-count": "2",
		"labels": "gpu=a100, team=ml", "taints": "gpu=yes:NoSchedule,alone:NoExecute", "csi-driver": "x=1",
	} {
		d.Annotations[v1alpha1.AnnotationCapacity+name] = value
	}
	got := resolve(t, d, shape())
	if want := "cpu=8 ephemeral-storage=100Gi memory=16Gi pods=60"; lineOf(got.Capacity) != want {
		t.Errorf("the capacity is %s, want %s", lineOf(got.Capacity), want)
	}
	if gpus := got.Allocatable["nvidia.com/gpu"]; gpus.Value() != 2 || got.Allocatable.Cpu().String() != "7600m" {
		t.Errorf("allocatable is %v", got.Allocatable)
	}
	if got.Labels["gpu"] != "a100" || got.Labels["team"] != "ml" || got.Labels["disk"] != "ssd" {
		t.Errorf("the labels are %v", got.Labels)
	}
	if len(got.Taints) != 3 || got.Taints[2] != (corev1.Taint{Key: "alone", Effect: corev1.TaintEffectNoExecute}) {
		t.Errorf("the taints are %v", got.Taints)
	}
}

func TestUnreadableCapacityAnnotationsAreErrors(t *testing.T) {
	for name, value := range map[string]string{
		"cpu": "many", "memory": "-1", "ephemeral-disk": "0", "maxPods": "1.5", "gpu-type": "no name", "gpu-count": "1",
		"labels": "a", "taints": "a=b:Sometimes",
	} {
		t.Run("an unreadable capacity annotation "+name+" is an error that names the annotation", func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + name: value}
			_, err := rules.template(ofDeployment(d), shape(), nil)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), v1alpha1.AnnotationCapacity+name) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
