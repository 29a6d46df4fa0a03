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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
)

// Only the kustomization in crds lists the manifests in crds, so that only it can remove them. The kustomization of deploy
// lists the rest.
func TestKustomizationsNameEveryManifest(t *testing.T) {
	for _, tt := range []struct {
		file string
		dirs []string
		more []string
	}{
		{"kustomization.yaml", []string{"policies", "rbac"}, []string{"deployment.yaml", "networkpolicy.yaml", "service.yaml"}},
		{"crds/kustomization.yaml", []string{"crds"}, nil},
		{"control/kustomization.yaml", []string{"control"}, nil},
		{"target/kustomization.yaml", []string{"target"}, nil},
	} {
		t.Run(tt.file+" lists every manifest in its folders, and no other (F-42)", func(t *testing.T) {
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

// The API server must accept every kustomization under strict validation, and the namespace's Pod Security level must allow
// drover's pods. The test applies with the field manager that installed the manifests, because another field manager would
// get a conflict: the CRDs contain preserveUnknownFields: false. The API server does not store this value, so it takes every
// apply as a change of that field, which the installing field manager owns.
func TestTheAPIServerAcceptsEveryKustomization(t *testing.T) {
	for dir, wanted := range map[string][]string{
		".":       {"deployment.apps/drover", "service/drover"},
		"control": {"deployment.apps/drover", "rolebinding.rbac.authorization.k8s.io/drover:references"},
		"target":  {"serviceaccount/drover", "rolebinding.rbac.authorization.k8s.io/drover:join"},
		"crds":    {"customresourcedefinition.apiextensions.k8s.io/machines.cluster.k8s.io", "validatingadmissionpolicybinding.admissionregistration.k8s.io/drover-crds"},
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

// The CRDs in the shared cluster were applied server-side, so this test begins with client-side apply.
// TestClientSideAndServerSideApplyCanFollowEachOther tests the changes between both ways with all manifests.
func TestClientSideApplyCanFollowServerSideApply(t *testing.T) {
	t.Run("the CRDs are applied server-side, client-side and server-side again without a conflict (F-43)", func(t *testing.T) {
		for _, way := range []string{"false", "true"} {
			kubectl(t, "apply", "--server-side="+way, "-k", "crds")
		}
	})
}

func TestTheNetworkPolicyFitsTheDeployment(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	var drover appsv1.Deployment
	var autoscaler appsv1.Deployment
	decode(t, "networkpolicy.yaml", 0, &policy)
	decode(t, "deployment.yaml", 0, &drover)
	decode(t, "cluster-autoscaler/deployment.yaml", 1, &autoscaler)

	got := map[string][]networkingv1.NetworkPolicyPeer{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			got[port.Port.String()] = rule.From
		}
	}
	t.Run("the NetworkPolicy opens no port to all clients, and the health port to nobody but the pod's own node (F-14, F-90)", func(t *testing.T) {
		for _, port := range drover.Spec.Template.Spec.Containers[0].Ports {
			from, named := got[port.Name]
			if named == (port.Name == "health") {
				t.Errorf("port %s is named: %v", port.Name, named)
			}
			if named && len(from) == 0 {
				t.Errorf("port %s is open to all", port.Name)
			}
			delete(got, port.Name)
		}
		for name := range got {
			t.Errorf("port %s is not one of the container's", name)
		}
	})
	t.Run("the NetworkPolicy's selectors match the pods of drover and of the shipped autoscaler (F-14)", func(t *testing.T) {
		for name, pair := range map[string]struct {
			selector *metav1.LabelSelector
			labels   map[string]string
		}{
			"drover":                 {&policy.Spec.PodSelector, drover.Spec.Template.Labels},
			"autoscaler":             {policy.Spec.Ingress[0].From[0].PodSelector, autoscaler.Spec.Template.Labels},
			"autoscaler's namespace": {policy.Spec.Ingress[0].From[0].NamespaceSelector, map[string]string{corev1.LabelMetadataName: autoscaler.Namespace}},
		} {
			selector, err := metav1.LabelSelectorAsSelector(pair.selector)
			if err != nil || !selector.Matches(labels.Set(pair.labels)) {
				t.Errorf("%s: %v does not match %v (error %v)", name, selector, pair.labels, err)
			}
		}
	})
}

// decode decodes one document of a YAML file. document is its number in the file, counted from 0. decode fails the test for a
// field that the type of into does not have.
func decode(t *testing.T, file string, document int, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(raw), "\n---\n")[document]), into); err != nil {
		t.Fatal(err)
	}
}

// The example Deployment must have exactly the flags in the file flags, and the cloud config in the file cloud-config.yaml.
func TestTheFlagsAndTheCloudConfigInTheAutoscalersDeploymentEqualThoseInTheirOwnFiles(t *testing.T) {
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
