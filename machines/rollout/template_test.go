package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const document = `{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu"}}`

func template(change ...func(*v1alpha1.MachineTemplateSpec)) *v1alpha1.MachineTemplateSpec {
	t := &v1alpha1.MachineTemplateSpec{
		Metadata: v1alpha1.EmbeddedMetadata{Labels: map[string]string{"a": "b"}},
		Spec: v1alpha1.MachineSpec{
			ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(document)}},
			Versions:     v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"},
		},
	}
	for _, c := range change {
		c(t)
	}
	return t
}

func raw(doc string) func(*v1alpha1.MachineTemplateSpec) {
	return func(t *v1alpha1.MachineTemplateSpec) { t.Spec.ProviderSpec.Value.Raw = []byte(doc) }
}

func TestTemplatesEqual(t *testing.T) {
	type change = func(*v1alpha1.MachineTemplateSpec)
	same := map[string]change{
		"key order":       raw(`{"cloudProviderSpec":{"image":"Ubuntu","tags":{"team":"a"},"flavor":"m1.small"},"cloudProvider":"openstack"}`),
		"whitespace":      raw("{ \"cloudProvider\":\"openstack\",\n\"cloudProviderSpec\":{\"flavor\":\"m1.small\",\"tags\":{\"team\":\"a\"},\"image\":\"Ubuntu\"}}"),
		"null and empty":  raw(`{"cloudProvider":"openstack","network":{},"overwriteCloudConfig":null,"cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","region":"","securityGroups":[],"rootDiskSizeGB":null}}`),
		"nested nothing":  raw(`{"cloudProvider":"openstack","network":{"dns":{"servers":[]}},"cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu"}}`),
		"the hash label":  func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels[v1alpha1.LabelTemplateHash] = "x" },
		"a creation time": func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Metadata.CreationTimestamp = &metav1.Time{} },
		"empty maps": func(t *v1alpha1.MachineTemplateSpec) {
			t.Metadata.Annotations = map[string]string{}
			t.Spec.Taints = []corev1.Taint{}
		},
		"the old spelling": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.ProviderConfig = &v1alpha1.ProviderSpec{Value: t.Spec.ProviderSpec.Value}
			t.Spec.ProviderSpec = v1alpha1.ProviderSpec{}
		},
	}
	for name, c := range same {
		t.Run("MC-19 CAPI-53 no roll: "+name, func(t *testing.T) {
			if !TemplatesEqual(template(), template(c)) || !TemplatesEqual(template(c), template()) {
				t.Error("templates differ")
			}
			one, err := templateHash(template(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := templateHash(template(c), 0); err != nil || one != other {
				t.Errorf("hashes differ: %s, %s, %v", one, other, err)
			}
		})
	}
	others := map[string]change{
		"flavor":              raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.large","tags":{"team":"a"},"image":"Ubuntu"}}`),
		"an empty tag":        raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a","spot":""},"image":"Ubuntu"}}`),
		"false is something":  raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","trustDevicePath":false}}`),
		"kubelet":             func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Versions.Kubelet = "1.37.2" },
		"a label":             func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels["x"] = "" },
		"an annotation":       func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Annotations = map[string]string{"x": "y"} },
		"an empty node label": func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Metadata.Labels = map[string]string{"role": ""} },
		"a taint": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}}
		},
		"another class": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "b"}}}
		},
	}
	for name, c := range others {
		t.Run("MC-18 rolls: "+name, func(t *testing.T) {
			if TemplatesEqual(template(), template(c)) {
				t.Error("templates are equal")
			}
		})
	}
}

func TestFenceposts(t *testing.T) {
	tests := map[string]struct {
		surge, unavailable string
		replicas           int32
		want               limits
	}{
		"MC-15 surge rounds up, unavailable down":  {"25%", "25%", 10, limits{3, 2}},
		"MC-15 MCM-9 both 0 makes unavailable 1":   {"0", "0", 3, limits{0, 1}},
		"CAPI-46 percentages that round to 0":      {"0%", "10%", 4, limits{0, 1}},
		"MC-15 unavailable is at most the size":    {"0", "7", 3, limits{0, 3}},
		"MC-15 nothing is unavailable at a size 0": {"0", "1", 0, limits{0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newWorld(shape{tt.replicas, tt.surge, tt.unavailable}).d
			if got, err := limitsOf(d, tt.replicas); err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	t.Run("a text without a percent sign is a percentage, as machine-controller reads it (F-55)", func(t *testing.T) {
		w := newWorld(shape{10, "1", "0"})
		w.d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("25"))
		w.d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("50"))
		if got, err := limitsOf(w.d, 10); err != nil || got != (limits{3, 5}) {
			t.Errorf("got %+v, %v; want 3 and 5", got, err)
		}
		if _, err := Compute(w.snapshot()); err != nil {
			t.Errorf("the deployment is refused: %v", err)
		}
	})
	t.Run("MC-1 MCM-22b not given: surge 1, unavailable 0", func(t *testing.T) {
		if got, err := limitsOf(&v1alpha1.MachineDeployment{}, 3); err != nil || got != (limits{1, 0}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestASpecThatCannotBeFollowedIsRefused(t *testing.T) {
	tests := map[string]func(*v1alpha1.MachineDeployment){
		"MCM-1 selector that does not match": func(d *v1alpha1.MachineDeployment) { d.Spec.Selector.MatchLabels["x"] = "y" },
		"MCM-1 empty selector":               func(d *v1alpha1.MachineDeployment) { d.Spec.Selector = metav1.LabelSelector{} },
		"MCM-2 unknown strategy":             func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = "Sideways" },
		"MC-2 negative size":                 func(d *v1alpha1.MachineDeployment) { n := int32(-1); d.Spec.Replicas = &n },
		"MC-2 more than all unavailable": func(d *v1alpha1.MachineDeployment) {
			v := intstr.Parse("101%")
			d.Spec.Strategy.RollingUpdate.MaxUnavailable = &v
		},
		"MC-2 a word as surge": func(d *v1alpha1.MachineDeployment) {
			v := intstr.Parse("some")
			d.Spec.Strategy.RollingUpdate.MaxSurge = &v
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(shape{3, "1", "0"})
			change(w.d)
			if p, err := Compute(w.snapshot()); err == nil {
				t.Errorf("followed: %v", p.Steps)
			}
		})
	}
}
