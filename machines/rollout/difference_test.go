package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheListOfDifferencesBetweenTwoTemplates(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.MachineTemplateSpec)
		want   []string
	}{
		"is empty for equal templates (MC-19)": {raw(strings.ReplaceAll(document, ",", " , ")), nil},
		"names a field of the provider spec with both values (MC-18)": {
			raw(strings.ReplaceAll(document, "m1.small", "m1.large")),
			[]string{"spec.providerSpec.value.cloudProviderSpec.flavor: m1.small → m1.large"},
		},
		"names a field that only one of the templates has (MC-18)": {
			raw(strings.ReplaceAll(document, `"tags":{"team":"a"},`, "")),
			[]string{"spec.providerSpec.value.cloudProviderSpec.tags.team: a → not set"},
		},
		"names a field outside of the provider spec (MC-18)": {
			func(t *v1alpha1.MachineTemplateSpec) { t.Spec.Versions.Kubelet = "1.37.2" },
			[]string{"spec.versions.kubelet: 1.37.1 → 1.37.2"},
		},
		"names an additional label with an empty value (MC-18)": {
			func(t *v1alpha1.MachineTemplateSpec) { t.Metadata.Labels["x"] = "" },
			[]string{`metadata.labels.x: not set → ""`},
		},
		"names a password field without its value (F-10)": {
			raw(strings.ReplaceAll(document, `"image"`, `"password":"hidden","image"`)),
			[]string{"spec.providerSpec.value.cloudProviderSpec.password: not set → (not shown)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := TemplateDifferences(template(), template(tt.change)); !slices.Equal(got, tt.want) {
				t.Errorf("TemplateDifferences()\ngot  %q\nwant %q", got, tt.want)
			}
		})
	}
}
