package deploy_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
)

var writeManifests = flag.Bool("write", false, "write the manifests of two clusters instead of comparing them")

// side names the clusters that need an object when Machines and Nodes are in different clusters: the control cluster, the
// target cluster, or both.
type side string

const (
	// inControl is the cluster with the Machines, inTarget the cluster with the Nodes.
	inControl side = "control"
	inTarget  side = "target"
	inBoth    side = "both"
)

func (s side) includes(cluster side) bool { return s == inBoth || s == cluster }

// roleSides maps the name of each object in rbac to the clusters that need the object. The rules of the ClusterRole drover are
// in ruleSides.
var roleSides = map[string]side{
	"drover":                        inControl,
	"drover:references":             inControl,
	"drover:machine-status":         inControl,
	"drover:autoscaler-certificate": inControl,
	"drover:server-certificate":     inControl,
	"drover:machine-controller":     inControl,
	"drover:node-bootstrapper":      inTarget,
	"drover:join":                   inTarget,
	"drover:api-server":             inTarget,
	"drover:cluster-info":           inTarget,
}

// ruleSides maps each resource in the ClusterRole drover to the clusters that need the rule for that resource.
var ruleSides = map[string]side{
	"machines": inControl, "machinesets": inControl, "machinedeployments": inControl,
	"machinesets/status": inControl, "machinedeployments/status": inControl,
	"machinesets/finalizers": inControl, "machinedeployments/finalizers": inControl,
	"clusters": inControl, "machineclasses": inControl, "namespaces": inControl, "customresourcedefinitions": inControl,
	"validatingadmissionpolicies": inControl, "validatingadmissionpolicybindings": inControl,
	"mutatingwebhookconfigurations": inControl, "validatingwebhookconfigurations": inControl,

	"nodes": inTarget, "pods": inTarget, "pods/eviction": inTarget, "persistentvolumeclaims": inTarget,
	"poddisruptionbudgets": inTarget, "volumeattachments": inTarget, "certificatesigningrequests": inTarget,
	"certificatesigningrequests/approval": inTarget, "signers": inTarget, "servicecidrs": inTarget, "subjectaccessreviews": inTarget,

	"events": inBoth,
}

// sideOf returns the clusters that need an object in rbac.
func sideOf(t *testing.T, o *unstructured.Unstructured) side {
	t.Helper()
	if o.GetKind() == "ServiceAccount" || o.GetName() == "drover" && o.GetNamespace() == "" {
		return inBoth
	}
	found, known := roleSides[o.GetName()]
	if !known {
		t.Fatalf("%s %s: say in roleSides which cluster needs it", o.GetKind(), o.GetName())
	}
	return found
}

// rulesOf returns the rules of the ClusterRole drover that a cluster needs.
func rulesOf(t *testing.T, o *unstructured.Unstructured, cluster side) *unstructured.Unstructured {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		t.Fatal(err)
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		of := ruleSides[r.Resources[0]]
		for _, resource := range r.Resources {
			if s, known := ruleSides[resource]; !known || s != of {
				t.Fatalf("rule about %v: say in ruleSides which cluster needs it; those of two clusters are two rules", r.Resources)
			}
		}
		return !of.includes(cluster)
	})
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&role)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// rolesFor returns the objects in rbac that a cluster needs.
func rolesFor(t *testing.T, cluster side) []*unstructured.Unstructured {
	t.Helper()
	all, err := deploy.Objects("rbac")
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, o := range all {
		if !sideOf(t, o).includes(cluster) {
			continue
		}
		if o.GetKind() == "ClusterRole" && o.GetName() == "drover" {
			o = rulesOf(t, o, cluster)
		}
		out = append(out, o)
	}
	return out
}

// targetFolder is the directory at which the pod mounts the Secret targetSecret, which contains the kubeconfig of the target
// cluster.
const (
	targetFolder = "/etc/drover/target"
	targetSecret = "drover-target"
)

// deploymentWithTarget returns the objects in deployment.yaml, with the kubeconfig of the target cluster.
func deploymentWithTarget(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile("deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for i, document := range strings.Split(string(raw), "\n---\n") {
		o := parse(document)
		if o.GetKind() == "Deployment" {
			var d appsv1.Deployment
			decode(t, "deployment.yaml", i, &d)
			pod := &d.Spec.Template.Spec
			drover := &pod.Containers[0]
			drover.Args = append(drover.Args, "--target-kubeconfig="+targetFolder+"/kubeconfig")
			drover.VolumeMounts = append(drover.VolumeMounts, corev1.VolumeMount{Name: "target", MountPath: targetFolder, ReadOnly: true})
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "target", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: targetSecret}}})
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d)
			if err != nil {
				t.Fatal(err)
			}
			o.Object = fields
		}
		out = append(out, o)
	}
	return out
}

// rendered returns the manifest of the objects as text. from is the source that the first line of the manifest names.
func rendered(t *testing.T, from string, objects []*unstructured.Unstructured) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "# Written by `make generate` from deploy/%s.\n", from)
	for i, o := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		unstructured.RemoveNestedField(o.Object, "status")
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "creationTimestamp")
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
	}
	return out.String()
}

// TestTheManifestsOfTwoClusters compares the manifests in control and target with those for one cluster.
func TestTheManifestsOfTwoClusters(t *testing.T) {
	for file, want := range map[string]string{
		"control/rbac.yaml":       rendered(t, "rbac", rolesFor(t, inControl)),
		"control/deployment.yaml": rendered(t, "deployment.yaml", deploymentWithTarget(t)),
		"target/rbac.yaml":        rendered(t, "rbac", rolesFor(t, inTarget)),
	} {
		t.Run(file+" equals the output of make generate", func(t *testing.T) {
			if *writeManifests {
				if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("run make generate (-generated +file):\n%s", diff)
			}
		})
	}
}
