//go:build cluster

package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// tried fails the test unless the API server accepts the manifests in a server-side dry run, which stores nothing.
func tried(t *testing.T, manifests string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(path, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	// The CRDs exist already, so their dry run is an update. deploy.Apply has applied them with the same field manager
	// as this kubectl.
	if _, err := cluster.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", path); err != nil {
		t.Error(err)
	}
}

// podOf returns the manifest of a Pod with a Deployment's template. The API server enforces pod security for Pods and
// not for Deployments.
func podOf(t *testing.T, objects []*unstructured.Unstructured, deployment string) string {
	t.Helper()
	d := deploymentOf(t, objects, deployment)
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: namespace, Labels: d.Spec.Template.Labels},
		Spec:       d.Spec.Template.Spec,
	}
	raw, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTheAPIServerAcceptsEveryVariantOfTheCharts(t *testing.T) {
	t.Run("the API server accepts the chart drover-crds", func(t *testing.T) { tried(t, template(t, "drover-crds")) })
	for _, v := range variants {
		t.Run("the API server accepts the chart drover with "+v.name, func(t *testing.T) {
			manifests := template(t, "drover", append(append([]string{}, image...), v.values...)...)
			tried(t, manifests)
			objects := decode(t, manifests)
			tried(t, podOf(t, objects, "drover"))
			if strings.Contains(strings.Join(v.values, " "), "mode=separate") {
				tried(t, podOf(t, objects, "cluster-autoscaler"))
			}
		})
	}
}
