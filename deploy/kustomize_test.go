package deploy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-project/drover/deploy"
)

func TestKustomizationNamesEveryManifest(t *testing.T) {
	var want []string
	for _, dir := range deploy.Dirs {
		files, err := filepath.Glob(dir + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, files...)
	}
	want = append(want, "deployment.yaml", "service.yaml")
	named, _, _ := unstructured.NestedStringSlice(read(t, "kustomization.yaml").Object, "resources")
	if diff := cmp.Diff(want, named, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("resources (-files +named):\n%s", diff)
	}
}

// The whole kustomization is accepted, strictly, and policies of the namespace let drover's pods in.
func TestKustomizationApplies(t *testing.T) {
	out := kubectl(t, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-k", ".")
	for _, want := range []string{"deployment.apps/drover", "service/drover", "customresourcedefinition.apiextensions.k8s.io/machines.cluster.k8s.io"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not hold %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "would violate PodSecurity") {
		t.Errorf("drover's pods are not as its namespace asks: %s", out)
	}
}

// The example Deployment, the file of flags and the cloud config say the same.
func TestTheAutoscalersFilesAgree(t *testing.T) {
	raw, err := os.ReadFile("cluster-autoscaler/flags")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "--") && !strings.ContainsAny(line, " \t"):
			flags = append(flags, line)
		case line != "" && !strings.HasPrefix(line, "#"):
			t.Errorf("neither a flag nor a comment: %q", line)
		}
	}
	raw, err = os.ReadFile("cluster-autoscaler/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(raw), "\n---\n")
	config, deployment := parse(documents[0]), parse(documents[1])
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if diff := cmp.Diff(flags, args); diff != "" {
		t.Errorf("args of the example Deployment (-flags +args):\n%s", diff)
	}
	inline, _, _ := unstructured.NestedString(config.Object, "data", "cloud-config.yaml")
	if diff := cmp.Diff(fmt.Sprint(read(t, "cluster-autoscaler/cloud-config.yaml").Object), fmt.Sprint(parse(inline).Object)); diff != "" {
		t.Errorf("cloud config (-file +Deployment):\n%s", diff)
	}
	if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--startup-taint=") }) {
		t.Error("the autoscaler is not told of the startup taint")
	}
	for _, o := range []*unstructured.Unstructured{config, deployment} {
		kubectl(t, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", temp(t, o))
	}
}
