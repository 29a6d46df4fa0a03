package guard_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each row alters a stored object so that an author could write a protected value.
func TestWhichAlteredAdmissionPoliciesDroverTrusts(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
				panic(err)
			}
		}
	}
	for _, row := range []struct {
		name, kind string
		change     func(*unstructured.Unstructured)
		says       string
	}{
		{"a policy without validations", policy, set([]any{}, "spec", "validations"), "(spec.validations)"},
		{"a policy whose validation always passes", policy, set([]any{map[string]any{"expression": "true"}}, "spec", "validations"), "(spec.validations)"},
		{"a policy with an additional match condition", policy, set([]any{map[string]any{"name": "a", "expression": "false"}}, "spec", "matchConditions"), "(spec.matchConditions)"},
		{"a policy with the failure policy Ignore", policy, set("Ignore", "spec", "failurePolicy"), "(spec.failurePolicy)"},
		{"a policy that does not apply to all namespaces", policy, set(map[string]any{"a": "b"}, "spec", "matchConstraints", "namespaceSelector", "matchLabels"), "(spec.matchConstraints)"},
		{"a binding that only warns", binding, set([]any{"Warn"}, "spec", "validationActions"), "(spec.validationActions)"},
		{"a binding of another policy", binding, set("other", "spec", "policyName"), "(spec.policyName)"},
		{"a binding to only some namespaces", binding, set(map[string]any{"a": "b"}, "spec", "matchResources", "namespaceSelector", "matchLabels"), "(spec.matchResources)"},
	} {
		t.Run("drover does not trust "+row.name+" (F-5)", func(t *testing.T) {
			run(t, nil, func(w *world) {
				time.Sleep(30 * time.Second)
				w.inForce(true)
				w.edit(row.kind, "drover-guard-machines", row.change)
				time.Sleep(time.Hour)
				w.inForce(false)
				w.reported(1, row.kind+" drover-guard-machines is not as shipped "+row.says)
			})
		})
	}
	t.Run("drover trusts a binding that differs from the shipped one only in empty fields and annotations (F-5)", func(t *testing.T) {
		run(t, nil, func(w *world) {
			w.edit(binding, "drover-guard-machines", func(o *unstructured.Unstructured) {
				set(map[string]any{}, "spec", "matchResources")(o)
				set("", "spec", "paramRef", "name")(o)
				o.SetAnnotations(map[string]string{"a": "b"})
			})
			time.Sleep(time.Hour)
			w.inForce(true)
			w.reported(0, "")
		})
	})
}
