package deploy_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/doccommands"
)

// This test runs those commands of the documentation that need objects, but not a running drover. Each command runs exactly as
// its page shows it.
func TestCommandsOfTheDocumentationWork(t *testing.T) {
	// The namespace is not the default one, so that a command without -n does not find the objects.
	ns, name := namespace(t, admin), "of-pages"
	shell := doccommands.NewShell(t, cluster.Kubeconfig)
	shell.Words = map[string]string{"NAMESPACE": ns, "NAME": name, "SERVER_ID": "9e9b3f5c-4f0f-4f5e-9d6c-000000000001", "USER": "author"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.Create(t.Context(), merge(t, parse(goodMachine), `{metadata: {namespace: `+ns+`, name: `+name+`}}`)))
	group := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: MachineDeployment, metadata: {namespace: ` + ns + `, name: ` + name + `}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {versions: {kubelet: 1.37.1}}}}}`)
	must(admin.Create(t.Context(), group))
	must(admin.Create(t.Context(), parse(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: drover, name: drover-orphans}, data: {report: "text of report"}}`)))
	for _, tt := range []struct{ block, prints string }{
		{"docs/operations.md#adopt", "annotated"},
		{"docs/security.md#adopting-machines", v1alpha1.AnnotationAdopt},
		{"docs/cluster-autoscaler.md#node-template", ""},
		{"docs/safety.md#unfreeze", "annotated"},
		{"docs/safety.md#confirm-orphans", "annotated"},
		{"docs/safety.md#orphan-report", "text of report"},
	} {
		t.Run("the command in "+tt.block+" succeeds", func(t *testing.T) {
			if out := shell.Run(t, tt.block); !strings.Contains(out, tt.prints) {
				t.Errorf("it printed %q, want %q", out, tt.prints)
			}
		})
	}
	t.Run("the command in docs/security.md#may-write-status prints no, because an author may not write statuses of Machines", func(t *testing.T) {
		if out, err := shell.Try(t.Context(), "docs/security.md#may-write-status"); err == nil || !strings.HasPrefix(out, "no") {
			t.Errorf("an author may write statuses: %q, %v", out, err)
		}
	})
}
