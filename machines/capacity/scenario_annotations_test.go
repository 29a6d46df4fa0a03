package capacity

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const kubeletConfig = "v1.kubelet-config.machine-controller.kubermatic.io/"

func TestKubeletAnnotationsChangeTheNodeTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		deployment, template map[string]string
		want                 string
	}{
		"annotations of the deployment change the node template (F-36)": {
			map[string]string{kubeletConfig + "MaxPods": "50", kubeletConfig + "KubeReserved": "cpu=500m,memory=1Gi"}, nil,
			// The flavor has 4096 MiB of memory: the kernel uses 122.88 MiB, 1024 MiB are reserved for the kubelet, 500 MiB for
			// the system, and 100 MiB are the eviction threshold.
			"cpu=1300m ephemeral-storage=43Gi memory=2463230853 pods=50",
		},
		"annotations of the Machine template take precedence over those of the deployment (F-36)": {
			map[string]string{kubeletConfig + "MaxPods": "50"}, map[string]string{kubeletConfig + "MaxPods": "70"},
			"cpu=1600m ephemeral-storage=43Gi memory=3222399877 pods=70",
		},
		"with operating-system-manager's annotation, the node template has that program's kubelet defaults (F-36)": {
			map[string]string{"k8c.io/operating-system-profile": "osp-ubuntu"}, map[string]string{kubeletConfig + "MaxPods": "70"},
			// The flavor has 4096 MiB of memory: the kernel uses 122.88 MiB, 200 MiB are reserved for the kubelet, 200 MiB for
			// the system, and 100 MiB are the eviction threshold.
			"cpu=1600m ephemeral-storage=43Gi memory=3641830277 pods=110",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment()
			d.Annotations, d.Spec.Template.Metadata.Annotations = tc.deployment, tc.template
			if got := lineOf(resolve(t, d, shape()).Allocatable); got != tc.want {
				t.Errorf("allocatable %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("annotations of a MachineSet change its node template (F-36)", func(t *testing.T) {
		s := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubeletConfig + "MaxPods": "50"}}}
		s.Spec.Template = deployment().Spec.Template
		got, err := rules.template(ofSet(s), shape(), nil)
		if err != nil || got.Capacity.Pods().Value() != 50 {
			t.Errorf("error %v, template %+v", err, got)
		}
	})
}
