package install

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// flagsOfDrover returns drover's flags, with their dashes.
func flagsOfDrover(t *testing.T) []string {
	t.Helper()
	var flags []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(--[a-z0-9-]+)`").FindAllStringSubmatch(readFile(t, "docs/flags.md"), -1) {
		flags = append(flags, row[1])
	}
	return flags
}

// recommended returns the flags that drover ships for the autoscaler.
func recommended(t *testing.T) []string {
	t.Helper()
	var flags []string
	for line := range strings.Lines(deploy.AutoscalerFlags) {
		if strings.HasPrefix(line, "--") {
			flags = append(flags, strings.TrimSpace(line))
		}
	}
	if len(flags) == 0 {
		t.Fatal("the file has no flags")
	}
	return flags
}

// flagsOfValues returns the flags in the values for the autoscaler's own chart, as that chart writes them.
func flagsOfValues(t *testing.T) []string {
	t.Helper()
	var values struct {
		ExtraArgs map[string]any `json:"extraArgs"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "deploy/cluster-autoscaler/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	var flags []string
	for name, value := range values.ExtraArgs {
		// The chart drops what follows an underscore, so that a flag can be given twice.
		name, _, _ = strings.Cut(name, "_")
		flags = append(flags, fmt.Sprintf("--%s=%v", name, value))
	}
	return flags
}

// deploymentOf returns a Deployment among objects.
func deploymentOf(t *testing.T, objects []*unstructured.Unstructured, name string) appsv1.Deployment {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == name {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &d, true); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("there is no Deployment %s", name)
	return appsv1.Deployment{}
}

// containerOf returns a container of a Deployment among objects.
func containerOf(t *testing.T, objects []*unstructured.Unstructured, deployment, name string) corev1.Container {
	t.Helper()
	d := deploymentOf(t, objects, deployment)
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the Deployment %s has no container %s", deployment, name)
	return corev1.Container{}
}
