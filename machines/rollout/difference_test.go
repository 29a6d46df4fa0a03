package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTemplateDifferences(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.MachineTemplateSpec)
		want   []string
	}{
		"equal templates have none (MC-19)": {raw(strings.ReplaceAll(document, ",", " , ")), nil},
		"a field of the provider spec is named with both values (MC-18)": {
			raw(strings.ReplaceAll(document, "m1.small", "m1.large")),
			[]string{"spec.providerSpec.value.cloudProviderSpec.flavor: m1.small → m1.large"},
		},
		"a field that one of them lacks is named (MC-18)": {
			raw(strings.ReplaceAll(document, `"tags":{"team":"a"},`, "")),
			[]string{"spec.providerSpec.value.cloudProviderSpec.tags.team: a → not given"},
		},
		"so is one outside of the provider spec (MC-18)": {
			func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Versions.Kubelet = "1.37.2" },
			[]string{"spec.versions.kubelet: 1.37.1 → 1.37.2"},
		},
		"an empty label is a difference (MC-18)": {
			func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels["x"] = "" },
			[]string{`metadata.labels.x: not given → ""`},
		},
		"a password is not shown (F-10)": {
			raw(strings.ReplaceAll(document, `"image"`, `"password":"hidden","image"`)),
			[]string{"spec.providerSpec.value.cloudProviderSpec.password: not given → (not shown)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := TemplateDifferences(template(), template(tt.change)); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
