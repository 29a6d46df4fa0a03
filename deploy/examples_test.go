package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-project/drover/machines/bootstrap"
)

// The tests may run with an older API server, but the demo's is the one in this go.mod.
func TestExamplesNameASupportedKubeletVersion(t *testing.T) {
	gomod, err := os.ReadFile("../test/kube/controlplane/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	server := regexp.MustCompile(`k8s.io/kubernetes (v\S+)`).FindSubmatch(gomod)
	if server == nil {
		t.Fatal("the go.mod of the control plane requires no k8s.io/kubernetes")
	}
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range files {
		for _, kubelet := range kubelets(read(t, file).Object) {
			named++
			t.Run(fmt.Sprintf("deploy/examples/%s names a kubelet version that the demo's API server supports (F-46)", filepath.Base(file)), func(t *testing.T) {
				if err := bootstrap.CheckSkew(kubelet, string(server[1])); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if named < 2 {
		t.Errorf("only %d examples name a kubelet", named)
	}
}

// kubelets returns every versions.kubelet in a document.
func kubelets(document map[string]any) (found []string) {
	for key, value := range document {
		inner, ok := value.(map[string]any)
		if !ok {
			continue
		}
		if kubelet, ok := inner["kubelet"].(string); ok && key == "versions" {
			found = append(found, kubelet)
		}
		found = append(found, kubelets(inner)...)
	}
	return found
}

// autoscalerManifests returns the documents of deploy/cluster-autoscaler, and their text with its comments.
func autoscalerManifests(t *testing.T) (documents []*unstructured.Unstructured, text string) {
	t.Helper()
	for _, file := range []string{"cluster-autoscaler/rbac.yaml", "cluster-autoscaler/deployment.yaml"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(raw), "\n---\n") {
			documents = append(documents, parse(document))
		}
		text += string(raw)
	}
	return documents, text
}

func TestTheAutoscalersManifests(t *testing.T) {
	documents, text := autoscalerManifests(t)
	shipped := map[string]bool{}
	for _, o := range documents {
		shipped[o.GetKind()+" "+o.GetName()] = true
	}
	t.Run("each object that the autoscaler's Deployment uses is in its manifests, or their comments name it as created by drover (F-46)", func(t *testing.T) {
		wanted := references(documents)
		if len(wanted) < 3 {
			t.Fatalf("only %v", wanted)
		}
		for _, name := range wanted {
			if !shipped[name] && !strings.Contains(text, "as deploy/deployment.yaml says: "+name) {
				t.Errorf("%s is neither shipped nor named", name)
			}
		}
	})
	t.Run("the autoscaler's manifests apply under strict validation (F-46)", func(t *testing.T) {
		kubectl(t, "apply", "--server-side", "--validate=strict", "-f", temp(t, documents...))
	})
	t.Run("the autoscaler's ServiceAccount may make the calls of autoscaler 1.36, but not delete Nodes or get Secrets (F-46)", func(t *testing.T) {
		const account = "system:serviceaccount:kube-system:cluster-autoscaler"
		for _, row := range []struct {
			may      bool
			what, in string
		}{
			{true, "update nodes", ""},
			{true, "watch nodes", ""},
			{true, "list pods", ""},
			{true, "get pods", "anywhere"},
			{true, "create pods/eviction", "anywhere"},
			{true, "list namespaces", ""},
			{true, "list services", ""},
			{true, "list replicationcontrollers", ""},
			{true, "list persistentvolumeclaims", ""},
			{true, "list persistentvolumes", ""},
			{true, "list daemonsets.apps", ""},
			{true, "list replicasets.apps", ""},
			{true, "list statefulsets.apps", ""},
			{true, "list jobs.batch", ""},
			{true, "watch poddisruptionbudgets.policy", ""},
			{true, "list csinodes.storage.k8s.io", ""},
			{true, "list csidrivers.storage.k8s.io", ""},
			{true, "list csistoragecapacities.storage.k8s.io", ""},
			{true, "list storageclasses.storage.k8s.io", ""},
			{true, "list volumeattachments.storage.k8s.io", ""},
			{true, "list resourceclaims.resource.k8s.io", ""},
			{true, "list resourceslices.resource.k8s.io", ""},
			{true, "list deviceclasses.resource.k8s.io", ""},
			{true, "create events", "anywhere"},
			{true, "create leases.coordination.k8s.io", "kube-system"},
			{true, "update leases.coordination.k8s.io:cluster-autoscaler", "kube-system"},
			{true, "create configmaps", "kube-system"},
			{true, "update configmaps:cluster-autoscaler-status", "kube-system"},
			{true, "get configmaps:cluster-autoscaler-priority-expander", "kube-system"},
			{false, "delete nodes", ""},
			{false, "get secrets", "kube-system"},
			{false, "update machinedeployments.cluster.k8s.io", "kube-system"},
			{false, "update configmaps", "kube-system"},
			{false, "update leases.coordination.k8s.io:other", "kube-system"},
		} {
			if got := allowed(t, account, row.what, row.in); got != row.may {
				t.Errorf("may %s in %q: %v, want %v", row.what, row.in, got, row.may)
			}
		}
	})
}

// references returns, as "Kind name", the ServiceAccounts, ConfigMaps and Secrets that the Deployments among the documents
// name.
func references(documents []*unstructured.Unstructured) (found []string) {
	for _, o := range documents {
		if o.GetKind() != "Deployment" {
			continue
		}
		spec, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		account, _, _ := unstructured.NestedString(spec, "serviceAccountName")
		found = append(found, "ServiceAccount "+account)
		volumes, _, _ := unstructured.NestedSlice(spec, "volumes")
		for _, volume := range volumes {
			fields := volume.(map[string]any)
			if name, ok, _ := unstructured.NestedString(fields, "configMap", "name"); ok {
				found = append(found, "ConfigMap "+name)
			}
			if name, ok, _ := unstructured.NestedString(fields, "secret", "secretName"); ok {
				found = append(found, "Secret "+name)
			}
		}
	}
	return found
}
