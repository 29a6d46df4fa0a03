//go:build cluster

package install

import (
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/kube"
)

// TestTheMigrationPagesHelmCommandsWork follows the Helm commands of docs/migrate-from-machine-controller.md on a cluster with
// the CRDs that machine-controller creates. The tests of cmd/drover follow the rest of the page.
func TestTheMigrationPagesHelmCommandsWork(t *testing.T) {
	t.Parallel()
	binary, err := helmBinary()
	if err != nil {
		t.Fatal(err)
	}
	legacy := kube.ForTest(t, kube.Options{})
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := legacy.Kubectl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	kubectl("apply", "-f", "../../deploy/testdata/open-crds.yaml")
	shell := doccommands.NewShell(t, legacy.Kubeconfig, filepath.Dir(binary))
	read := map[string][]string{
		"the type of Machine's status":         {"crd", "machines.cluster.k8s.io", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.status.type}"},
		"replicas":                             {"-n", namespace, "deployment", "drover", "-o", "jsonpath={.spec.replicas}"},
		"who may write statuses beside drover": {"clusterrolebinding", "drover:machine-status:machine-controller", "--ignore-not-found", "-o", "jsonpath={.subjects[*].name}"},
		"replicas of the autoscaler":           {"-n", "kube-system", "deployment", "cluster-autoscaler", "--ignore-not-found", "-o", "jsonpath={.spec.replicas}"},
	}
	for _, step := range []struct {
		block string
		want  map[string]string
	}{
		{"docs/migrate-from-machine-controller.md#helm-install", map[string]string{
			"the type of Machine's status": "object", "replicas": "0", "who may write statuses beside drover": "machine-controller",
		}},
		{"docs/migrate-from-machine-controller.md#helm-start", map[string]string{"replicas": "2", "replicas of the autoscaler": ""}},
		{"docs/migrate-from-machine-controller.md#helm-tidy", map[string]string{
			"replicas": "2", "who may write statuses beside drover": "", "replicas of the autoscaler": "1",
		}},
	} {
		shell.Run(t, step.block)
		for what, want := range step.want {
			if got := kubectl(append([]string{"get"}, read[what]...)...); got != want {
				t.Errorf("after %s %s: got %q, want %q", step.block, what, got, want)
			}
		}
	}
}
