package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-project/drover/test/doccommands"
)

// byID returns the objects by their IDs. It leaves out namespaces, which Helm itself creates.
func byID(objects []*unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	for _, o := range objects {
		if o.GetKind() != "Namespace" {
			found[id(o)] = o.Object
		}
	}
	return found
}

func TestTheChartsAndTheKustomizationsRenderTheSameObjects(t *testing.T) {
	for _, row := range []struct {
		name  string
		chart []*unstructured.Unstructured
		dirs  []string
	}{
		{"the chart drover-crds renders the same objects as the kustomization deploy/crds", decode(t, template(t, "drover-crds")), []string{"crds"}},
		{"the chart drover renders the same objects as the kustomization deploy", rendered(t), []string{"."}},
		{"the chart drover with a separate autoscaler renders the same objects as deploy and deploy/cluster-autoscaler", rendered(t, "--set=autoscaler.mode=separate"), []string{".", "cluster-autoscaler"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var objects []*unstructured.Unstructured
			for _, dir := range row.dirs {
				objects = append(objects, kustomized(t, cluster, dir)...)
			}
			if diff := cmp.Diff(byID(objects), byID(row.chart)); diff != "" {
				t.Errorf("objects (-kustomization +chart):\n%s", diff)
			}
		})
	}
	for name, tt := range map[string]struct{ value, file, want string }{
		"with machineController.installed=true the chart renders the ClusterRoleBinding of deploy/machine-controller": {
			"machineController.installed=true", "machine-controller/status.yaml", "ClusterRoleBinding drover:machine-status:machine-controller",
		},
		"with operatingSystemManager.installed=true the chart renders the RoleBinding of deploy/operating-system-manager (F-101)": {
			"operatingSystemManager.installed=true", "operating-system-manager/references.yaml", "RoleBinding cloud-init-settings/drover:references",
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile("../../deploy/" + tt.file)
			if err != nil {
				t.Fatal(err)
			}
			want := decode(t, string(raw))[0].Object
			if diff := cmp.Diff(want, byID(rendered(t, "--set="+tt.value))[tt.want]); diff != "" {
				t.Errorf("%s (-manifest +chart):\n%s", tt.want, diff)
			}
		})
	}
}

func TestDroverMayWriteSecretsOnlyWhenItMakesItsOwnCertificates(t *testing.T) {
	for _, row := range []struct {
		name  string
		value string
		may   bool
	}{
		{"with the Helm value tls.mode=self drover may write the Secrets of its namespace", "--set=tls.mode=self", true},
		{"with the Helm value tls.mode=secret drover may not write the Secrets of its namespace", "--set=tls.mode=secret", false},
		{"with the Helm value autoscaler.mode=sidecar drover may not write the Secrets of its namespace", "--set=autoscaler.mode=sidecar", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			objects := byID(rendered(t, row.value))
			for _, kind := range []string{"Role", "RoleBinding"} {
				if _, has := objects[kind+" drover/drover:server-certificate"]; has != row.may {
					t.Errorf("there is a %s: %t, want %t", kind, has, row.may)
				}
			}
		})
	}
}

func TestSelectorOfTheChartsDeploymentForTheAutoscaler(t *testing.T) {
	t.Run("does not depend on the Helm value autoscaler.podName, which is only for an autoscaler outside the chart", func(t *testing.T) {
		d := deploymentOf(t, rendered(t, "--set=autoscaler.mode=separate", "--set=autoscaler.podName=other"), "cluster-autoscaler")
		want := map[string]string{"app.kubernetes.io/name": "cluster-autoscaler"}
		if diff := cmp.Diff(want, d.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("selector (-want +got):\n%s", diff)
		}
	})
}

func TestTheChartHasADisruptionBudgetForTheAutoscalersPods(t *testing.T) {
	objects := rendered(t, "--set=autoscaler.mode=separate")
	d := deploymentOf(t, objects, "cluster-autoscaler")
	budget, has := byID(objects)["PodDisruptionBudget "+d.Namespace+"/cluster-autoscaler"].(map[string]any)
	if !has {
		t.Fatal("there is no PodDisruptionBudget for the autoscaler's pods, so the autoscaler does not move them")
	}
	got, _, err := unstructured.NestedStringMap(budget, "spec", "selector", "matchLabels")
	if diff := cmp.Diff(d.Spec.Template.Labels, got); err != nil || diff != "" {
		t.Errorf("the budget's selector (-the pods' labels +got): %v\n%s", err, diff)
	}
}

func TestEachDisruptionBudgetAllowsToEvictPodsThatAreNotReady(t *testing.T) {
	for key, object := range byID(rendered(t, "--set=autoscaler.mode=separate")) {
		if !strings.HasPrefix(key, "PodDisruptionBudget ") {
			continue
		}
		t.Run(key+" lets a node be drained although a pod on it is not ready (F-149)", func(t *testing.T) {
			if got, _, err := unstructured.NestedString(object.(map[string]any), "spec", "unhealthyPodEvictionPolicy"); err != nil || got != "AlwaysAllow" {
				t.Errorf("unhealthyPodEvictionPolicy is %q, error %v", got, err)
			}
		})
	}
}

func TestTheServiceNamesNoProtocolForTheTLSPort(t *testing.T) {
	service, _ := byID(rendered(t))["Service drover/drover"].(map[string]any)
	ports, _, err := unstructured.NestedSlice(service, "spec", "ports")
	if err != nil || len(ports) != 2 {
		t.Fatalf("the ports are %v, error %v", ports, err)
	}
	t.Run("no port has an appProtocol, because a service mesh would take the TLS of the port for plain gRPC (F-150)", func(t *testing.T) {
		for _, p := range ports {
			if protocol, has := p.(map[string]any)["appProtocol"]; has {
				t.Errorf("a port has the appProtocol %v", protocol)
			}
		}
	})
}

func TestKustomizationAndChartHaveTheSameDeploymentWithoutAConfiguredCloud(t *testing.T) {
	shell := doccommands.NewShell(t, cluster.Kubeconfig)
	shell.Run(t, "docs/install.md#mine")
	shell.Run(t, "docs/install.md#no-cloud")
	out, err := cluster.Kubectl(t.Context(), "kustomize", filepath.Join(shell.Dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	got := deploymentOf(t, decode(t, string(out)), "drover")
	want := deploymentOf(t, rendered(t, "--set=image.repository=registry.example.com/drover", "--set=image.tag=0.1.0", "--set=cloud.secretName=",
		"--set=extraArgs={--allowed-endpoints=https://keystone.example.com:5000/v3}"), "drover")
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("Deployment (-chart +kustomization):\n%s", diff)
	}
}

func TestTheChartSetsVariablesOfDroversContainer(t *testing.T) {
	t.Run("env and envFrom are drover's variables, for OS_* variables, proxies and KUBE_FEATURE_* (F-121)", func(t *testing.T) {
		got := containerOf(t, rendered(t, "--set=cloud.secretName=", "--set=env[0].name=KUBE_FEATURE_WatchListClient", "--set-string=env[0].value=false",
			"--set=envFrom[0].secretRef.name=openstack-variables"), "drover", "drover")
		if len(got.Env) != 1 || got.Env[0].Name != "KUBE_FEATURE_WatchListClient" || got.Env[0].Value != "false" {
			t.Errorf("env: %v", got.Env)
		}
		if len(got.EnvFrom) != 1 || got.EnvFrom[0].SecretRef == nil || got.EnvFrom[0].SecretRef.Name != "openstack-variables" {
			t.Errorf("envFrom: %v", got.EnvFrom)
		}
	})
}

func TestHelmLintAcceptsTheCharts(t *testing.T) {
	for _, chart := range []string{"drover-crds", "drover"} {
		t.Run("helm lint reports no error and no warning for the chart "+chart, func(t *testing.T) {
			args := []string{"lint", "--strict", filepath.Join(charts, chart)}
			if chart == "drover" {
				args = append(args, image...)
			}
			out := helm(t, nil, args...)
			if strings.Contains(out, "[WARNING]") || strings.Contains(out, "[ERROR]") {
				t.Error(out)
			}
		})
	}
}

func TestTheChartRefusesInvalidValues(t *testing.T) {
	for _, row := range []struct {
		name   string
		values []string
		says   string
	}{
		{"values without an image", nil, "image.repository is empty"},
		{"a misspelt key in its values", []string{image[0], "--set=replica=3"}, "replica"},
		{"a misspelt key below tls in its values", []string{image[0], "--set=tls.certmanager.duration=1h"}, "certmanager"},
		{"an unknown value of tls.mode", []string{image[0], "--set=tls.mode=none"}, "mode"},
		{"an unknown value of autoscaler.mode", []string{image[0], "--set=autoscaler.mode=apart"}, "mode"},
		{"a flag without its dashes in extraArgs", []string{image[0], "--set=extraArgs={health-timeout=20m}"}, "extraArgs"},
		{"a field of the pod that has a value of its own", []string{image[0], "--set=podSpec.nodeSelector.disk=ssd"}, "podSpec.nodeSelector"},
		{"a digest that is not one", []string{image[0], "--set=image.digest=latest"}, "digest"},
		{"a variable without a name", []string{image[0], "--set=env[0].value=a"}, "env"},
		{"replicas that are not a number", []string{image[0], "--set-string=replicas=two"}, "replicas"},
		{"a cert-manager issuer without a name", []string{image[0], "--set=tls.mode=certManager", "--set=tls.certManager.issuerRef.kind=Issuer"}, "name"},
		{"certificates in two namespaces from a cert-manager Issuer, which serves only one namespace", []string{image[0], "--set=tls.mode=certManager", "--set=tls.certManager.issuerRef.name=ca"}, "name a ClusterIssuer"},
		{"its own cert-manager CA for certificates in two namespaces, because the CA's Issuer serves only one namespace", []string{image[0], "--set=tls.mode=certManager"}, "set autoscaler.namespace=drover"},
		{"drover's own namespace as a namespace for Machines", []string{image[0], "--set=machineNamespaces={kube-system,drover}"}, "drover is the namespace of this release"},
		{"a list tls.allowedClients without cluster-autoscaler, because the autoscaler's certificate has that name", []string{image[0], "--set=tls.allowedClients={other}"}, "lacks cluster-autoscaler"},
		{"an unknown key in the values of the chart for the CRDs", nil, "additional"},
	} {
		t.Run("the chart refuses "+row.name, func(t *testing.T) {
			args := append([]string{"template", "drover", filepath.Join(charts, "drover"), "--namespace=" + namespace}, row.values...)
			if strings.HasSuffix(row.name, "CRDs") {
				args = []string{"template", "drover-crds", filepath.Join(charts, "drover-crds"), "--set=keep=false"}
			}
			out, err := runHelm(t.Context(), t.TempDir(), nil, args...)
			if err == nil {
				t.Fatalf("it was rendered:\n%s", out)
			}
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want an error that says %q", err, row.says)
			}
		})
	}
}

// TestEveryVariantOfTheChartUsesOnlyExistingFlags checks that the documentation of drover's flags lists every flag that
// a variant of the chart sets.
func TestEveryVariantOfTheChartUsesOnlyExistingFlags(t *testing.T) {
	known := flagsOfDrover(t)
	for _, v := range variants {
		t.Run("the chart with "+v.name+" sets only flags that drover has", func(t *testing.T) {
			for _, arg := range containerOf(t, rendered(t, v.values...), "drover", "drover").Args {
				if name, _, _ := strings.Cut(arg, "="); !slices.Contains(known, name) {
					t.Errorf("drover has no flag %s", name)
				}
			}
		})
	}
}

// TestTheAutoscalerGetsTheRecommendedFlags compares the autoscaler's flags in three places with the file of recommended flags.
func TestTheAutoscalerGetsTheRecommendedFlags(t *testing.T) {
	want := recommended(t)
	t.Run("the chart with a separate autoscaler sets the recommended flags", func(t *testing.T) {
		got := containerOf(t, rendered(t, "--set=autoscaler.mode=separate"), "cluster-autoscaler", "cluster-autoscaler").Args
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("flags (-file +chart):\n%s", diff)
		}
	})
	t.Run("the chart with an autoscaler in drover's pods sets the recommended flags, followed by autoscaler.extraArgs", func(t *testing.T) {
		got := containerOf(t, rendered(t, "--set=autoscaler.mode=sidecar", "--set=autoscaler.extraArgs={--expander=priority}"), "drover", "cluster-autoscaler").Args
		if diff := cmp.Diff(append(slices.Clone(want), "--expander=priority"), got); diff != "" {
			t.Errorf("flags (-file +chart):\n%s", diff)
		}
	})
	t.Run("drover's values for the Helm chart of cluster-autoscaler set the recommended flags", func(t *testing.T) {
		got := flagsOfValues(t)
		slices.Sort(got)
		all := append([]string{"--cloud-config=/etc/drover-config/cloud-config.yaml", "--v=2"}, want...)
		slices.Sort(all)
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("flags (-file +values):\n%s", diff)
		}
	})
}
