package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

func TestOnlyATemplateThatDiffersInMeaningCausesARollout(t *testing.T) {
	type change = func(*v1alpha1.MachineTemplateSpec)
	same := map[string]change{
		"a template that differs only in the order of keys causes no rollout (MC-19, CAPI-53)":                                                                     raw(`{"cloudProviderSpec":{"image":"Ubuntu","tags":{"team":"a"},"flavor":"m1.small"},"cloudProvider":"openstack"}`),
		"a template that differs only in whitespace causes no rollout (MC-19, CAPI-53)":                                                                            raw("{ \"cloudProvider\":\"openstack\",\n\"cloudProviderSpec\":{\"flavor\":\"m1.small\",\"tags\":{\"team\":\"a\"},\"image\":\"Ubuntu\"}}"),
		"a template that differs only in provider spec fields with a null or empty value causes no rollout, because such fields count as missing (MC-19, CAPI-53)": raw(`{"cloudProvider":"openstack","network":{},"overwriteCloudConfig":null,"cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","region":"","securityGroups":[],"rootDiskSizeGB":null}}`),
		"a template that differs only in a nested provider spec field with an empty value causes no rollout (MC-19, CAPI-53)":                                      raw(`{"cloudProvider":"openstack","network":{"dns":{"servers":[]}},"cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu"}}`),
		"a template that differs only in the hash label causes no rollout (MC-19, CAPI-53)":                                                                        func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels[v1alpha1.LabelTemplateHash] = "x" },
		"a template that differs only in a creation time causes no rollout (MC-19, CAPI-53)":                                                                       func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Metadata.CreationTimestamp = &metav1.Time{} },
		"a template that differs only in an empty map of annotations and an empty list of taints causes no rollout (MC-19, CAPI-53)": func(t *v1alpha1.MachineTemplateSpec) {
			t.Metadata.Annotations = map[string]string{}
			t.Spec.Taints = []corev1.Taint{}
		},
		"a template that differs only in the use of the former field name providerConfig causes no rollout (MC-19, CAPI-53)": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.ProviderConfig = &v1alpha1.ProviderSpec{Value: t.Spec.ProviderSpec.Value}
			t.Spec.ProviderSpec = v1alpha1.ProviderSpec{}
		},
	}
	for name, c := range same {
		t.Run(name, func(t *testing.T) {
			if !TemplatesEqual(template(), template(c)) || !TemplatesEqual(template(c), template()) {
				t.Error("TemplatesEqual() = false, want true")
			}
			one, err := templateHash(template(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := templateHash(template(c), 0); err != nil || one != other {
				t.Errorf("templateHash() = %s and %s, %v", one, other, err)
			}
		})
	}
	others := map[string]change{
		"a template that differs in the flavor causes a rollout (MC-18)":                                                                                 raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.large","tags":{"team":"a"},"image":"Ubuntu"}}`),
		"a template with an additional tag in its provider spec causes a rollout even when the tag's value is empty, because the key counts too (MC-18)": raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a","spot":""},"image":"Ubuntu"}}`),
		"a template that differs in an additional field with the value false causes a rollout (MC-18)":                                                   raw(`{"cloudProvider":"openstack","cloudProviderSpec":{"flavor":"m1.small","tags":{"team":"a"},"image":"Ubuntu","trustDevicePath":false}}`),
		"a template that differs in the kubelet version causes a rollout (MC-18)":                                                                        func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Versions.Kubelet = "1.37.2" },
		"a template that differs in a label causes a rollout (MC-18)":                                                                                    func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels["x"] = "" },
		"a template that differs in an annotation causes a rollout (MC-18)":                                                                              func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Annotations = map[string]string{"x": "y"} },
		"a template with an additional node label causes a rollout even when the label's value is empty, because the key counts too (MC-18)":             func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Metadata.Labels = map[string]string{"role": ""} },
		"a template that differs in a taint causes a rollout (MC-18)": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}}
		},
		"a template that differs in the MachineClass causes a rollout (MC-18)": func(t *v1alpha1.MachineTemplateSpec) {
			t.Spec.ProviderSpec.ValueFrom = &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{ObjectReference: corev1.ObjectReference{Name: "b"}}}
		},
	}
	for name, c := range others {
		t.Run(name, func(t *testing.T) {
			if TemplatesEqual(template(), template(c)) {
				t.Error("TemplatesEqual() = true, want false")
			}
		})
	}
}
