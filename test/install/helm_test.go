package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/test/kube"
)

const (
	root      = "../.."
	charts    = root + "/deploy/chart"
	namespace = "drover"
)

// helmBinary returns the path of Helm, which hack/tools pins. The first call on a machine compiles it.
var helmBinary = sync.OnceValues(func() (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "tool", "-modfile="+root+"/hack/tools/go.mod", "-n", "helm").Output()
	if err != nil {
		return "", fmt.Errorf("building helm: %w", explained(err))
	}
	return strings.TrimSpace(string(out)), nil
})

// explained adds the standard error of a failed program to the error of its run.
func explained(err error) error {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	return err
}

// runHelm runs Helm and returns its output. Helm uses the given cluster. If that is nil, Helm uses no cluster.
func runHelm(ctx context.Context, dir string, on *kube.Cluster, args ...string) (string, error) {
	binary, err := helmBinary()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	if on != nil {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+on.Kubeconfig)
	}
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("helm %s: %w", strings.Join(args, " "), explained(err))
	}
	return string(out), nil
}

func helm(t *testing.T, on *kube.Cluster, args ...string) string {
	t.Helper()
	out, err := runHelm(t.Context(), t.TempDir(), on, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// image holds the values without which Helm cannot render the chart.
var image = []string{"--set=image.repository=drover", "--set=image.tag=latest"}

// template returns the rendered chart with these values.
func template(t *testing.T, chart string, values ...string) string {
	t.Helper()
	return helm(t, nil, append([]string{"template", chart, filepath.Join(charts, chart), "--namespace=" + namespace}, values...)...)
}

// rendered returns the objects of the chart drover with these values.
func rendered(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, template(t, "drover", append(append([]string{}, image...), values...)...))
}

// kustomized returns the objects of a kustomization under deploy.
func kustomized(t *testing.T, on *kube.Cluster, dir string) []*unstructured.Unstructured {
	t.Helper()
	out, err := on.Kubectl(t.Context(), "kustomize", filepath.Join(root, "deploy", dir))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(out))
}

// decode returns the objects in a YAML stream.
func decode(t *testing.T, stream string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+stream, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	return objects
}

// id returns a name that identifies an object of any kind.
func id(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}
