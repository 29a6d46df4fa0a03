package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFieldsThatATypeDoesNotHaveAreRemembered(t *testing.T) {
	const document = `{"kind":"MachineDeployment","spec":{"replicas":1,"note":1,"strategy":{"typ":"x"},"template":{"metadata":{"label":{}},"spec":{
		"roles":["Node"],"hostname":"x","versions":{"kubelet":"1.37.1","containerRuntime":{"name":"docker"}},
		"providerSpec":{"value":{"any":"thing"},"extra":1},"taints":[{"key":"a","effect":"NoSchedule","why":"b"}]}}}}`
	var d MachineDeployment
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		t.Fatal(err)
	}
	t.Run("every unknown and every former field is named with its path (F-115)", func(t *testing.T) {
		text := strings.Join(d.Spec.WithoutEffect(), "; ")
		for _, path := range []string{
			"spec.note: unknown", "spec.strategy.typ: unknown", "spec.template.metadata.label: unknown", "spec.template.spec.roles: has no effect any more",
			"spec.template.spec.hostname: unknown", "spec.template.spec.versions.containerRuntime: has no effect any more",
			"spec.template.spec.providerSpec.extra: unknown", "spec.template.spec.taints[0].why: unknown",
		} {
			if !strings.Contains(text, path) {
				t.Errorf("%s is missing in: %s", path, text)
			}
		}
	})
	t.Run("known fields are decoded, and unknown fields are not written", func(t *testing.T) {
		raw, err := json.Marshal(&d)
		if err != nil {
			t.Fatal(err)
		}
		if *d.Spec.Replicas != 1 || d.Spec.Template.Spec.Versions.Kubelet != "1.37.1" || strings.Contains(string(raw), "docker") || strings.Contains(string(raw), "nknown") {
			t.Errorf("the object became %s", raw)
		}
	})
	t.Run("only some of many unknown fields are remembered", func(t *testing.T) {
		var fields []string
		for i := range 1000 {
			fields = append(fields, fmt.Sprintf("%q:1", strings.Repeat("x", 1000)+fmt.Sprint(i)))
		}
		var m MachineSpec
		if err := json.Unmarshal([]byte("{"+strings.Join(fields, ",")+"}"), &m); err != nil {
			t.Fatal(err)
		}
		if len(m.Unknown) != mostUnknown || slices.ContainsFunc(m.Unknown, func(s string) bool { return len(s) > longestUnknown }) {
			t.Errorf("%d paths are remembered", len(m.Unknown))
		}
	})
}
