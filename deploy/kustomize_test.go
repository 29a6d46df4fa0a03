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
	"github.com/drover-project/drover/test/kube"
)

// What stands in crds is removed by nothing but its own kustomization; deploy's has the rest.
func TestKustomizationsNameEveryManifest(t *testing.T) {
	for _, tt := range []struct {
		file string
		dirs []string
		more []string
	}{
		{"kustomization.yaml", []string{"policies", "rbac"}, []string{"deployment.yaml", "service.yaml"}},
		{"crds/kustomization.yaml", []string{"crds"}, nil},
	} {
		t.Run(tt.file+" (F-42)", func(t *testing.T) {
			want := tt.more
			for _, dir := range tt.dirs {
				files, err := filepath.Glob(dir + "/*.yaml")
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					name, err := filepath.Rel(filepath.Dir(tt.file), file)
					if err != nil {
						t.Fatal(err)
					}
					if file != tt.file {
						want = append(want, name)
					}
				}
			}
			named, _, _ := unstructured.NestedStringSlice(read(t, tt.file).Object, "resources")
			if diff := cmp.Diff(want, named, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("resources (-files +named):\n%s", diff)
			}
		})
	}
}

// Both kustomizations are accepted, strictly, and policies of the namespace let drover's pods in. They are applied by the
// field manager that applied them before: CRDs say preserveUnknownFields: false, which the API server does not store, so
// a second manager that applies the same conflicts with the first.
func TestKustomizationsApply(t *testing.T) {
	for dir, wanted := range map[string][]string{
		".":    {"deployment.apps/drover", "service/drover"},
		"crds": {"customresourcedefinition.apiextensions.k8s.io/machines.cluster.k8s.io", "validatingadmissionpolicybinding.admissionregistration.k8s.io/drover-crds"},
	} {
		out := kubectl(t, "apply", "--server-side", "--field-manager="+deploy.FieldManager, "--validate=strict", "--dry-run=server", "-k", dir)
		for _, want := range wanted {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not hold %s:\n%s", dir, want, out)
			}
		}
		if strings.Contains(out, "would violate PodSecurity") {
			t.Errorf("drover's pods are not as its namespace asks: %s", out)
		}
	}
}

// Whoever began with one way of applying may go on with the other, without --force-conflicts.
func TestEitherWayOfApplyingFollowsTheOther(t *testing.T) {
	for name, ways := range map[string][]string{
		"client-side, then server-side (F-43)": {"false", "true", "false", "true"},
		"server-side, then client-side (F-43)": {"true", "false", "true", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := kube.ForTest(t, kube.Options{})
			for _, way := range ways {
				for _, dir := range []string{"crds", "."} {
					if out, err := on.Kubectl(t.Context(), "apply", "--server-side="+way, "-k", dir); err != nil {
						t.Fatalf("applying %s with --server-side=%s: %v\n%s", dir, way, err, out)
					}
				}
			}
		})
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
