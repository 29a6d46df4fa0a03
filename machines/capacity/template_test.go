package capacity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// zoneLabel is a label that the cloud's CSI driver puts on its nodes.
const zoneLabel = "topology.cinder.csi.openstack.org/zone"

func shape() cloud.Shape {
	return cloud.Shape{
		Flavor: "m1.small", CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi"), Disk: resource.MustParse("50Gi"),
		Zone: "nova", ZoneLabels: []string{zoneLabel}, Region: "RegionOne", Architecture: "arm64",
	}
}

var rules = Rules{StartupTaint: v1alpha1.DefaultStartupTaint, GPUResource: DefaultGPUResource}

func deployment() *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a", UID: "1", Generation: 3}}
	d.Spec.Selector.MatchLabels = map[string]string{"machine": "a"}
	d.Spec.Template.Metadata.Labels = map[string]string{"machine": "a", "team": "machines"}
	d.Spec.Template.Spec.Metadata.Labels = map[string]string{"team": "nodes", "disk": "ssd"}
	d.Spec.Template.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule},
		{Key: v1alpha1.DefaultStartupTaint, Effect: corev1.TaintEffectNoSchedule},
		{Key: v1alpha1.TaintUninitialized, Effect: corev1.TaintEffectNoSchedule},
	}
	return d
}

func resolve(t *testing.T, d *v1alpha1.MachineDeployment, s cloud.Shape) *v1alpha1.NodeTemplate {
	t.Helper()
	template, err := rules.template(ofDeployment(d), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return template.NodeTemplate
}

func TestANodeTemplateHasTheResourcesThatPodsMayUse(t *testing.T) {
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		change      func(*cloud.Shape)
		capacity    string
		allocatable string
	}{
		{
			name:     "the flavor's resources are reduced by reservations, eviction thresholds and 3 % of the memory (CA-C99)",
			capacity: "cpu=2 ephemeral-storage=50Gi memory=4166118277 pods=110",
			// The flavor has 4096 MiB of memory: the kernel uses 122.88 MiB, 300 MiB are reserved for the kubelet, 500 MiB for
			// the system, and 100 MiB are the eviction threshold. The disk has 50 GiB: 1 GiB is reserved for the kubelet, 1 GiB
			// for the system, and 10 % are the eviction threshold.
			allocatable: "cpu=1600m ephemeral-storage=43Gi memory=3222399877 pods=110",
		},
		{
			name: "the kubelet annotations of the Machine template change the reservations, eviction thresholds and maximum number of pods that they name (F-157)",
			annotations: map[string]string{
				"v1.kubelet-config.machine-controller.kubermatic.io/KubeReserved":   "cpu=500m,memory=1Gi",
				"v1.kubelet-config.machine-controller.kubermatic.io/SystemReserved": "memory=512Mi",
				"v1.kubelet-config.machine-controller.kubermatic.io/EvictionHard":   "memory.available<5%",
				"v1.kubelet-config.machine-controller.kubermatic.io/MaxPods":        "50",
			},
			capacity:    "cpu=2 ephemeral-storage=50Gi memory=4166118277 pods=50",
			allocatable: "cpu=1300m ephemeral-storage=43Gi memory=2340757177 pods=50",
		},
		{
			name: "resources are 0 on a server that is smaller than its reservations",
			change: func(s *cloud.Shape) {
				s.CPU, s.Memory, s.Disk = resource.MustParse("100m"), resource.MustParse("256Mi"), resource.Quantity{}
			},
			capacity:    "cpu=100m memory=260382392 pods=110",
			allocatable: "cpu=0 memory=0 pods=110",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, s := deployment(), shape()
			d.Spec.Template.Metadata.Annotations = tc.annotations
			if tc.change != nil {
				tc.change(&s)
			}
			got := resolve(t, d, s)
			for want, list := range map[string]corev1.ResourceList{tc.capacity: got.Capacity, tc.allocatable: got.Allocatable} {
				if diff := cmp.Diff(want, lineOf(list)); diff != "" {
					t.Errorf("resources (-want +got):\n%s", diff)
				}
			}
			for name, left := range got.Allocatable {
				if total := got.Capacity[name]; left.Cmp(total) > 0 {
					t.Errorf("CA-C97 %s: %s are left of %s", name, left.String(), total.String())
				}
			}
		})
	}
}

func lineOf(list corev1.ResourceList) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceEphemeralStorage, corev1.ResourceMemory, corev1.ResourcePods} {
		if q, ok := list[name]; ok {
			out = append(out, string(name)+"="+q.String())
		}
	}
	return strings.Join(out, " ")
}

func TestANodeTemplateHasTheLabelsOfItsFutureNodes(t *testing.T) {
	want := map[string]string{
		"team": "nodes", "disk": "ssd", v1alpha1.LabelManaged: "true",
		"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64",
		"node.kubernetes.io/instance-type": "m1.small", "beta.kubernetes.io/instance-type": "m1.small",
		"topology.kubernetes.io/zone": "nova", "failure-domain.beta.kubernetes.io/zone": "nova", "topology.cinder.csi.openstack.org/zone": "nova",
		"topology.kubernetes.io/region": "RegionOne", "failure-domain.beta.kubernetes.io/region": "RegionOne",
	}
	t.Run("the labels are those of the Machine template and those that Kubernetes sets on every node (CA-C100, CA-C101)", func(t *testing.T) {
		if diff := cmp.Diff(want, resolve(t, deployment(), shape()).Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
	t.Run("a label names the operating system of the provider spec (F-38)", func(t *testing.T) {
		d := deployment()
		d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"operatingSystem": "flatcar"}`)}
		if got := resolve(t, d, shape()).Labels["v1.machine-controller.kubermatic.io/operating-system"]; got != "flatcar" {
			t.Errorf("the label is %q", got)
		}
	})
	t.Run("reserved labels are left out unless they are allowed, whether a template or an annotation sets them (F-89)", func(t *testing.T) {
		const role, tier, allowed = "node-role.kubernetes.io/control-plane", "node-restriction.kubernetes.io/tier", "node-restriction.kubernetes.io/team"
		d := deployment()
		d.Annotations = map[string]string{v1alpha1.AnnotationCapacity + "labels": role + "=,rack=r1"}
		d.Spec.Template.Metadata.Labels[tier] = "high"
		d.Spec.Template.Spec.Metadata.Labels[allowed] = "a"
		permissive := rules
		permissive.AllowedNodeLabels = []string{allowed}
		got, err := permissive.template(ofDeployment(d), shape(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, hasRole := got.Labels[role]
		if _, hasTier := got.Labels[tier]; hasRole || hasTier || got.Labels[allowed] != "a" || got.Labels["rack"] != "r1" {
			t.Errorf("labels %v", got.Labels)
		}
	})
	t.Run("labels whose value is unknown or invalid are left out", func(t *testing.T) {
		s := shape()
		s.Zone, s.Region, s.Architecture, s.Flavor = "", "", "", "a flavor with spaces"
		got := resolve(t, deployment(), s).Labels
		if diff := cmp.Diff(map[string]string{
			"team": "nodes", "disk": "ssd", v1alpha1.LabelManaged: "true",
			"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64",
		}, got); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	})
}

func TestANodeTemplateHasNoStartupTaint(t *testing.T) {
	t.Run("the taints are those of the Machine template without drover's startup taint (CA-C100)", func(t *testing.T) {
		got := resolve(t, deployment(), shape()).Taints
		if diff := cmp.Diff([]corev1.Taint{{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule}}, got); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
	})
}

func TestAKubeletAnnotationThatCannotBeReadIsNamedAndTheTemplateStays(t *testing.T) {
	d := deployment()
	key := "v1.kubelet-config.machine-controller.kubermatic.io/MaxPods"
	d.Spec.Template.Metadata.Annotations = map[string]string{key: "many"}
	got, err := rules.template(ofDeployment(d), shape(), nil)
	if err != nil || got.Capacity.Pods().Value() != 110 {
		t.Fatalf("%d pods, error %v; want the default of 110 (F-128)", got.Capacity.Pods().Value(), err)
	}
	if v := judge(ofDeployment(d), got, nil); !strings.Contains(v.condition.Message, key) || v.warning == "" || v.condition.Status != metav1.ConditionTrue {
		t.Errorf("the verdict is %+v", v)
	}
}

func TestANodeTemplateHasNoStartupTaintsOfOtherPrograms(t *testing.T) {
	t.Run("the taint of --startup-requires and those with the autoscaler's prefixes are left out, and other taints stay (F-47, F-129)", func(t *testing.T) {
		r := Rules{OtherStartupTaints: []string{"node.cilium.io/agent-not-ready"}}
		byName := corev1.Taint{Key: "startup-taint.cluster-autoscaler.kubernetes.io/cilium", Effect: corev1.TaintEffectNoExecute}
		lasting := corev1.Taint{Key: "dedicated", Value: "ci", Effect: corev1.TaintEffectNoSchedule}
		got := r.taints([]corev1.Taint{{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoExecute}, byName, lasting})
		if len(got) != 1 || got[0] != lasting {
			t.Errorf("got %v", got)
		}
	})
}

func TestANodeTemplateHasTheGPULabelThatDroverReports(t *testing.T) {
	for name, tc := range map[string]struct {
		resource corev1.ResourceName
		gpus     int64
		want     string
	}{
		"with GPUs that the autoscaler knows, the label has their type (F-125)":           {DefaultGPUResource, 2, "a100"},
		"with GPUs of another name there is no label, as on the nodes (F-126)":            {"example.com/shared", 2, ""},
		"without GPUs there is no label, although the node has the label of GPUs (F-125)": {DefaultGPUResource, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, of, d := rules, shape(), deployment()
			r.GPULabel, r.GPUResource, of.GPUs = "accelerator", tc.resource, tc.gpus
			d.Spec.Template.Spec.Metadata.Labels["accelerator"] = "a100"
			got, err := r.template(ofDeployment(d), of, nil)
			if err != nil || got.Labels[v1alpha1.LabelGPU] != tc.want {
				t.Errorf("labels %v, error %v", got.Labels, err)
			}
		})
	}
}

func TestANodeTemplateHasTheGPUsOfItsFlavor(t *testing.T) {
	for _, want := range []int64{0, 2} {
		of := shape()
		of.GPUs = want
		got := resolve(t, deployment(), of).Allocatable[DefaultGPUResource]
		if got.Value() != want {
			t.Errorf("%s GPUs, want %d", got.String(), want)
		}
	}
}
