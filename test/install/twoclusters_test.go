//go:build cluster

package install

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/test/doccommands"
	"github.com/drover-project/drover/test/kube"
)

// contexts writes a kubeconfig with contexts for the administrators of two clusters.
func contexts(t *testing.T, control, target *kube.Cluster) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	for name, config := range map[string]*rest.Config{"control": control.Config, "target": target.Config} {
		file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
		file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTheCommandsOfTheInstallPageForTwoClustersWork follows the page's section about two clusters. test/e2e runs drover with two clusters.
func TestTheCommandsOfTheInstallPageForTwoClustersWork(t *testing.T) {
	t.Parallel()
	// The target cluster needs a controller manager, which creates the token of drover's ServiceAccount.
	target := kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})
	control := kube.ForTest(t, kube.Options{})
	shell := doccommands.NewShell(t, contexts(t, control, target))
	shell.Words["CONTROL"], shell.Words["TARGET"], shell.Words["API-SERVER"] = "control", "target", "127.0.0.1"
	for _, block := range []string{"docs/install.md#target", "docs/install.md#target-secret", "docs/install.md#control", "docs/install.md#control-autoscaler"} {
		shell.Run(t, block)
	}
	for _, wanted := range []string{"secret/drover-target", "deployment/drover", "service/drover"} {
		if _, err := control.Kubectl(t.Context(), "-n", namespace, "get", wanted); err != nil {
			t.Error(err)
		}
	}
	command, err := control.Kubectl(t.Context(), "-n", "kube-system", "get", "deployment", "cluster-autoscaler", "-o", "jsonpath={.spec.template.spec.containers[0].command}")
	if err != nil || !strings.Contains(string(command), "--kubeconfig=/etc/target/kubeconfig") {
		t.Errorf("the autoscaler's command is %s: %v", command, err)
	}
	for _, wanted := range []string{"drover", "cluster-autoscaler"} {
		if _, err := target.Kubectl(t.Context(), "get", "clusterrole", wanted); err != nil {
			t.Error(err)
		}
	}
}
