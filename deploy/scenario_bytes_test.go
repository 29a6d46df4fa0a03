package deploy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTheMaximumSizeOfAProviderSpec(t *testing.T) {
	for kind, path := range map[string][]string{
		"Machine":           {"spec", "providerSpec", "value"},
		"MachineSet":        {"spec", "template", "spec", "providerSpec", "value"},
		"MachineDeployment": {"spec", "template", "spec", "providerSpec", "value"},
		"MachineClass":      {"providerSpec"},
		"Cluster":           {"spec", "providerSpec", "value"},
	} {
		create := func(bytes int) error {
			o := parse(goodObjects[kind])
			o.SetNamespace("default")
			o.SetName("fat")
			if err := unstructured.SetNestedField(o.Object, strings.Repeat("x", bytes), append(path, "padding")...); err != nil {
				t.Fatal(err)
			}
			return admin.Create(t.Context(), o, client.DryRunAll)
		}
		t.Run(kind+": a provider spec of 1.2 MB is refused (F-96)", func(t *testing.T) {
			expect(t, "65536 are the most", create(1200<<10))
		})
		t.Run(kind+": a provider spec of 65 KiB is refused (F-96)", func(t *testing.T) {
			expect(t, "65536 are the most", create(65<<10))
		})
		t.Run(kind+": a provider spec of 60 KiB is accepted (F-96)", func(t *testing.T) {
			expect(t, "", create(60<<10))
		})
	}
	t.Run("an object that was stored with a longer provider spec can be changed in everything else (F-96)", func(t *testing.T) {
		o := existing(t, merge(t, parse(goodDeployment), `{spec: {replicas: 1}}`))
		policies := objects(t, "policies")
		policies = slices.DeleteFunc(policies, func(p *unstructured.Unstructured) bool {
			return p.GetName() != "drover-bytes" || !strings.HasSuffix(p.GetKind(), "Binding")
		})
		padded := func(bytes int) string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"providerSpec":{"value":{"padding":%q}}}}}}`, strings.Repeat("x", bytes))
		}
		if err := admin.Delete(t.Context(), policies[0]); err != nil {
			t.Fatal(err)
		}
		become(t, "the policy is not in force", func(ctx context.Context) bool { return mergePatch(ctx, admin, o, padded(70<<10)) == nil })
		policies[0].SetResourceVersion("")
		put(t, admin, policies)
		longer := 70 << 10
		become(t, "the policy is in force", func(ctx context.Context) bool {
			longer++
			return mergePatch(ctx, admin, o, padded(longer)) != nil
		})
		expect(t, "", mergePatch(t.Context(), admin, o, `{"spec":{"replicas":2},"metadata":{"labels":{"a":"b"}}}`))
	})
}

func TestTheMaximumSizeOfLabelsAndAnnotations(t *testing.T) {
	many := func(bytes int) string {
		var all []string
		for n := 0; n*40 < bytes; n++ {
			all = append(all, fmt.Sprintf(`%q: %q`, fmt.Sprintf("key-%016d", n), strings.Repeat("x", 20)))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	for name, tt := range map[string]struct{ kind, over, refusal string }{
		"1.2 MB of labels of a Machine are refused (F-96)":            {"Machine", `{metadata: {labels: ` + many(1200<<10) + `}}`, "are more than 256"},
		"100 KiB of annotations of a Machine are refused (F-96)":      {"Machine", `{metadata: {annotations: ` + many(100<<10) + `}}`, "more than 65536 bytes"},
		"100 KiB of labels of a Node are refused in a Machine (F-96)": {"Machine", `{spec: {metadata: {labels: ` + many(100<<10) + `}}}`, "must have at most 256 items"},
		"100 KiB of annotations in a template are refused (F-96)":     {"MachineDeployment", `{spec: {template: {metadata: {annotations: {a: "` + strings.Repeat("x", 100<<10) + `"}}}}}`, "more than 65536 bytes"},
		"200 labels of a Machine are accepted (F-96)":                 {"Machine", `{metadata: {labels: ` + many(200*40) + `}}`, ""},
		"the copy that kubectl apply leaves does not count (F-96)":    {"Machine", `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "` + strings.Repeat("x", 200<<10) + `"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[tt.kind]), tt.over)
			o.SetNamespace("default")
			o.SetName("fat")
			expect(t, tt.refusal, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}
