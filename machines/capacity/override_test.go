package capacity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
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
	large := shape()
	large.CPU, large.Memory, large.Disk = resource.MustParse("16"), resource.MustParse("32Gi"), resource.MustParse("200Gi")
	got := resolve(t, d, large)
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

func TestNeitherAnnotationsNorAClassGiveANodeMoreThanItsFlavorHas(t *testing.T) {
	above := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourceEphemeralStorage: resource.MustParse("10Ti")}
	annotated := map[string]string{"cpu": "64", "memory": "1Ti", "ephemeral-disk": "10Ti", "gpu-type": "nvidia.com/gpu", "gpu-count": "8"}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		class       *v1alpha1.ClassNodeTemplate
		flavor      func(*cloud.Shape)
		want        string
		gpus        int64
		refuted     int
	}{
		{
			name: "annotations above the flavor have the flavor's values (F-92)", annotations: annotated, flavor: func(s *cloud.Shape) { s.GPUs = 1 },
			want: "cpu=2 ephemeral-storage=50Gi memory=4Gi pods=110", gpus: 1, refuted: 4,
		},
		{
			name: "a class above the flavor has the flavor's values (F-92)", class: &v1alpha1.ClassNodeTemplate{Capacity: above},
			want: "cpu=2 ephemeral-storage=50Gi memory=4Gi pods=110", refuted: 3,
		},
		{
			name: "annotations of at most the flavor stay (F-92)", annotations: map[string]string{"cpu": "2", "memory": "4Gi", "ephemeral-disk": "20Gi"},
			want: "cpu=2 ephemeral-storage=20Gi memory=4Gi pods=110",
		},
		{
			name: "a disk and GPUs that the flavor does not state are taken from annotations (F-92)", annotations: map[string]string{"ephemeral-disk": "10Ti", "gpu-type": "nvidia.com/gpu", "gpu-count": "8"},
			flavor: func(s *cloud.Shape) { s.Disk = resource.Quantity{} },
			want:   "cpu=2 ephemeral-storage=10Ti memory=4166118277 pods=110", gpus: 8,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, flavor := deployment(), shape()
			d.Annotations = map[string]string{}
			for name, value := range tc.annotations {
				d.Annotations[v1alpha1.AnnotationCapacity+name] = value
			}
			if tc.flavor != nil {
				tc.flavor(&flavor)
			}
			got, err := rules.template(ofDeployment(d), flavor, tc.class)
			if err != nil {
				t.Fatal(err)
			}
			gpus := got.Allocatable["nvidia.com/gpu"]
			if line := lineOf(got.Capacity); line != tc.want || gpus.Value() != tc.gpus || len(got.refuted) != tc.refuted {
				t.Errorf("capacity %s, %d GPUs, refused %q; want %s, %d and %d texts", line, gpus.Value(), got.refuted, tc.want, tc.gpus, tc.refuted)
			}
		})
	}
}

func TestANodeTemplateHasOneTaintOfAKeyAndEffect(t *testing.T) {
	for name, tc := range map[string]struct{ annotation, want string }{
		"an annotation replaces the taint of the same key and effect (F-74)":   {"dedicated=other:NoSchedule", "dedicated=other:NoSchedule"},
		"an annotation adds a taint of the same key and another effect (F-74)": {"dedicated=ci:NoExecute", "dedicated=ci:NoSchedule dedicated=ci:NoExecute"},
		"the last of two equal taints in an annotation counts (F-74)":          {"gpu=a:NoSchedule,gpu=b:NoSchedule", "dedicated=ci:NoSchedule gpu=b:NoSchedule"},
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "taints": tc.annotation}
			var got []string
			for _, taint := range resolve(t, d, shape()).Taints {
				got = append(got, taint.ToString())
			}
			if line := strings.Join(got, " "); line != tc.want {
				t.Errorf("the taints are %s, want %s", line, tc.want)
			}
		})
	}
}

func TestACapacityAnnotationMayHaveEachFormOfAQuantity(t *testing.T) {
	for _, tt := range []struct{ name, value, resource, want string }{
		{"cpu", "1500m", "cpu", "1500m"}, {"cpu", "1.5", "cpu", "1500m"}, {"cpu", "1", "cpu", "1000m"},
		{"memory", "3Gi", "memory", "3072Mi"}, {"memory", "3072Mi", "memory", "3Gi"}, {"memory", "3221225472", "memory", "3Gi"}, {"memory", "3G", "memory", "3000000000"}, {"memory", "3e9", "memory", "3G"},
		{"ephemeral-disk", "40Gi", "ephemeral-storage", "40960Mi"}, {"ephemeral-disk", "40G", "ephemeral-storage", "40000000000"},
		{"maxPods", "60", "pods", "60"},
	} {
		t.Run("the annotation "+tt.name+" may be "+tt.value+" (report 134)", func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + tt.name: tt.value}
			template, err := rules.template(ofDeployment(d), shape(), nil)
			if err != nil || len(template.refuted) > 0 {
				t.Fatalf("error %v, refused %q", err, template.refuted)
			}
			got := template.Capacity[corev1.ResourceName(tt.resource)]
			if got.Cmp(resource.MustParse(tt.want)) != 0 {
				t.Errorf("%s is %s, want %s", tt.resource, got.String(), tt.want)
			}
		})
	}
}

func TestACapacityAnnotationThatCannotBeReadCostsOnlyItself(t *testing.T) {
	for name, value := range map[string]string{
		"cpu": "many", "memory": "-1", "ephemeral-disk": "1x", "maxPods": "1.5", "gpu-type": "no name", "gpu-count": "1",
		"labels": "a", "taints": "a=b:Sometimes",
	} {
		t.Run("the template leaves out an unreadable "+name+", and the condition names the annotation (F-128)", func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + name: value}
			got, err := rules.template(ofDeployment(d), shape(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := resolve(t, deployment(), shape()); !equality.Semantic.DeepEqual(got.NodeTemplate, want) {
				t.Errorf("the template is %+v, want %+v", got.NodeTemplate, want)
			}
			said := judge(ofDeployment(d), got, nil)
			if !strings.Contains(said.condition.Message, v1alpha1.AnnotationCapacity+name) || said.warning == "" {
				t.Errorf("the verdict is %+v", said)
			}
		})
	}
	for name, value := range map[string]string{
		"cpu": "", "memory": "0", "ephemeral-disk": " ", "maxPods": "0", "gpu-type": "", "gpu-count": "0", "labels": " , ", "taints": "",
	} {
		t.Run("an empty "+name+", or one of 0, sets nothing and is not an error (F-128)", func(t *testing.T) {
			d := deployment()
			d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + name: value}
			got, err := rules.template(ofDeployment(d), shape(), nil)
			if err != nil || len(got.refuted) > 0 || !equality.Semantic.DeepEqual(got.NodeTemplate, resolve(t, deployment(), shape())) {
				t.Errorf("error %v, refused %q, template %+v", err, got.refuted, got.NodeTemplate)
			}
		})
	}
	t.Run("the good entries of a list count although another one is bad or empty (F-128)", func(t *testing.T) {
		d := deployment()
		d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "labels": "tier=web,,bad", v1alpha1.AnnotationCapacity + "taints": "x:NoExecute,"}
		got, err := rules.template(ofDeployment(d), shape(), nil)
		if err != nil || got.Labels["tier"] != "web" || len(got.Taints) != 2 || len(got.refuted) != 1 {
			t.Errorf("error %v, labels %v, taints %v, refused %q", err, got.Labels, got.Taints, got.refuted)
		}
	})
}
