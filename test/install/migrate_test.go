//go:build cluster

package install

import (
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/kube"
)

// TestTheHelmCommandsOfTheMigrationPageWork follows the Helm commands of docs/migrate-from-machine-controller.md on a cluster with
// the CRDs that machine-controller creates. The tests of cmd/drover follow the rest of the page.
func TestTheHelmCommandsOfTheMigrationPageWork(t *testing.T) {
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
	kubectl("create", "namespace", "cloud-init-settings")
	shell := doccommands.NewShell(t, legacy.Kubeconfig, filepath.Dir(binary))
	read := map[string][]string{
		"the commands set the expected type of the field status in the CRD of Machines":           {"crd", "machines.cluster.k8s.io", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.status.type}"},
		"the commands set the expected replicas of the Deployment drover":                         {"-n", namespace, "deployment", "drover", "-o", "jsonpath={.spec.replicas}"},
		"the commands bind exactly the expected accounts to the ClusterRole for writing statuses": {"clusterrolebinding", "drover:machine-status:machine-controller", "--ignore-not-found", "-o", "jsonpath={.subjects[*].name}"},
		"the commands bind drover to the ClusterRole for references in cloud-init-settings":       {"-n", "cloud-init-settings", "rolebinding", "drover:references", "--ignore-not-found", "-o", "jsonpath={.roleRef.name}"},
		"the commands set the expected replicas of the Deployment cluster-autoscaler":             {"-n", "kube-system", "deployment", "cluster-autoscaler", "--ignore-not-found", "-o", "jsonpath={.spec.replicas}"},
	}
	for _, step := range []struct {
		block string
		want  map[string]string
	}{
		{"docs/migrate-from-machine-controller.md#helm-install", map[string]string{
			"the commands set the expected type of the field status in the CRD of Machines": "object", "the commands set the expected replicas of the Deployment drover": "0", "the commands bind exactly the expected accounts to the ClusterRole for writing statuses": "machine-controller",
			"the commands bind drover to the ClusterRole for references in cloud-init-settings": "drover:references",
		}},
		{"docs/migrate-from-machine-controller.md#helm-start", map[string]string{"the commands set the expected replicas of the Deployment drover": "2", "the commands set the expected replicas of the Deployment cluster-autoscaler": ""}},
		{"docs/migrate-from-machine-controller.md#helm-tidy", map[string]string{
			"the commands set the expected replicas of the Deployment drover": "2", "the commands bind exactly the expected accounts to the ClusterRole for writing statuses": "", "the commands set the expected replicas of the Deployment cluster-autoscaler": "1",
			"the commands bind drover to the ClusterRole for references in cloud-init-settings": "drover:references",
		}},
		{"docs/migrate-from-machine-controller.md#helm-back", map[string]string{
			"the commands set the expected replicas of the Deployment drover": "0", "the commands bind exactly the expected accounts to the ClusterRole for writing statuses": "machine-controller", "the commands set the expected replicas of the Deployment cluster-autoscaler": "",
		}},
		{"docs/migrate-from-machine-controller.md#helm-start", map[string]string{"the commands set the expected replicas of the Deployment drover": "2"}},
	} {
		shell.Run(t, step.block)
		for what, want := range step.want {
			if got := kubectl(append([]string{"get"}, read[what]...)...); got != want {
				t.Errorf("after %s, %s: got %q, want %q", step.block, what, got, want)
			}
		}
	}
}
