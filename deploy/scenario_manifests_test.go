package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// The API server sets these fields on every object, so an exported object has them.
var serverSet = []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}

func strip(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range serverSet {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	return o
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The documents are manifests as users write them. One of them was exported and has the fields that an API server sets.
func TestTheAPIServerStoresManifestsUnchanged(t *testing.T) {
	examples, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range append(examples, "testdata/nodes.yaml", "testdata/exported.yaml") {
		t.Run("the object in "+filepath.Base(file)+" is the same when it is read back", func(t *testing.T) {
			written := read(t, file)
			ns := namespace(t, admin)
			written.SetNamespace(ns)
			kubectl(t, "create", "--validate=strict", "-f", temp(t, strip(written)))
			back := fetch(t, written)
			if diff := cmp.Diff(text(t, strip(written)), text(t, strip(back))); diff != "" {
				t.Errorf("it does not read back as written (-written +now):\n%s", diff)
			}
			// Applying the same manifest again changes nothing.
			kubectl(t, "apply", "--server-side", "--validate=strict", "-f", temp(t, strip(written)))
			if again := fetch(t, written); again.GetGeneration() != back.GetGeneration() {
				t.Errorf("applying it again made generation %d of %d", again.GetGeneration(), back.GetGeneration())
			}
		})
	}
}

// The exported document has the fields that another API server set. Creating it works, because kubectl leaves out the
// resourceVersion. Applying it to the existing object is refused while it has the resourceVersion.
func TestAnExportedManifestAppliesOnlyWithoutItsResourceVersion(t *testing.T) {
	exported := read(t, "testdata/exported.yaml")
	exported.SetNamespace(namespace(t, admin))
	file := temp(t, exported)
	kubectl(t, "create", "-f", file)
	if got := fetch(t, exported); got.GetUID() == exported.GetUID() || got.GetCreationTimestamp() == exported.GetCreationTimestamp() {
		t.Error("the server took over a UID or a time that it has to set itself")
	}
	if out, err := cluster.Kubectl(t.Context(), "apply", "--server-side", "-f", file); err == nil {
		t.Errorf("applied with the version of another server: %s", out)
	}
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", temp(t, strip(exported)))
}

func fetch(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	back := o.DeepCopy()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), back); err != nil {
		t.Fatal(err)
	}
	return back
}

// temp writes objects to a file for kubectl, and returns the file's path.
func temp(t *testing.T, objects ...*unstructured.Unstructured) string {
	t.Helper()
	var text strings.Builder
	for _, o := range objects {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s\n", raw)
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A manifest without replicas never changes the size that another client has set, whichever way it is applied.
func TestApplyingAManifestWithoutReplicasKeepsTheSize(t *testing.T) {
	for name, flags := range map[string][]string{"client-side": {"--server-side=false"}, "server-side": {"--server-side", "--field-manager=git"}} {
		for _, kind := range []string{"MachineDeployment", "MachineSet"} {
			t.Run("the size of a "+kind+" stays after a "+name+" apply of a manifest without replicas (MC-1)", func(t *testing.T) {
				ns := namespace(t, admin)
				manifest := merge(t, parse(goodObjects[kind]), `{spec: {replicas: null}}`)
				manifest.SetNamespace(ns)
				apply := func(o *unstructured.Unstructured) {
					kubectl(t, append([]string{"apply", "-f", temp(t, o)}, flags...)...)
				}
				apply(manifest)
				if _, has, _ := unstructured.NestedInt64(fetch(t, manifest).Object, "spec", "replicas"); has {
					t.Fatal("the schema gave replicas a default")
				}
				kubectl(t, "-n", ns, "scale", kind, "good", "--replicas=5")
				apply(merge(t, manifest, `{spec: {template: {metadata: {labels: {new: label}}}}}`))
				if size, _, _ := unstructured.NestedInt64(fetch(t, manifest).Object, "spec", "replicas"); size != 5 {
					t.Errorf("the size is %d after applying a manifest without one, want 5", size)
				}
			})
		}
	}
}

func TestTheScaleSubresourceOfDeploymentsAndSets(t *testing.T) {
	for kind, plural := range map[string]string{"MachineDeployment": "machinedeployments", "MachineSet": "machinesets"} {
		t.Run("a "+kind+"'s size can be read and changed through /scale (MC-4)", func(t *testing.T) {
			o := existing(t, parse(goodObjects[kind]))
			o.Object["status"] = map[string]any{"replicas": int64(4), "selector": "group=g"}
			if err := admin.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			path := fmt.Sprintf("/apis/cluster.k8s.io/v1alpha1/namespaces/%s/%s/good/scale", o.GetNamespace(), plural)
			scale := parse(kubectl(t, "get", "--raw", path))
			want := map[string]any{"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"replicas": int64(4), "selector": "group=g"}}
			if diff := cmp.Diff(fmt.Sprint(want["status"], want["spec"]), fmt.Sprint(scale.Object["status"], scale.Object["spec"])); diff != "" {
				t.Errorf("scale (-want +got):\n%s", diff)
			}
			kubectl(t, "-n", o.GetNamespace(), "scale", plural, "good", "--current-replicas=1", "--replicas=9")
			if size, _, _ := unstructured.NestedInt64(fetch(t, o).Object, "spec", "replicas"); size != 9 {
				t.Errorf("spec.replicas is %d after scaling to 9", size)
			}
		})
	}
}

func TestStrictValidationOfUnknownFields(t *testing.T) {
	for _, r := range []rule{
		{"an unknown field in a Machine's spec is accepted (F-115)", "Machine", `{spec: {taint: []}}`, ``},
		{"an unknown field in the metadata of a template is accepted (F-115)", "MachineDeployment", `{spec: {template: {metadata: {label: {a: b}}}}}`, ``},
		{"an unknown field in a deployment is accepted (F-115)", "MachineDeployment", `{spec: {replica: 1}}`, ``},
		{"an unknown field in a set's removals is refused with an error that names the field", "MachineSet", `{spec: {removals: [{name: a, uid: b, why: c}]}}`, `unknown field "spec.removals[0].why"`},
		{"an unknown field in a MachineClass is refused with an error that names the field", "MachineClass", `{providerSpecs: {}}`, `unknown field "providerSpecs"`},
		{"an unknown field in a Cluster is accepted (F-118)", "Cluster", `{spec: {clusterNetwork: {pod: {}}}}`, ``},
		{"an unknown field in a Machine's providerSpec.value is accepted", "Machine", `{spec: {providerSpec: {value: {cloudProviderSpec: {flavour: m1.small}}}}}`, ``},
	} {
		t.Run(r.name, func(t *testing.T) {
			o := merge(t, parse(goodObjects[r.kind]), r.over)
			o.SetNamespace(namespace(t, admin))
			expect(t, r.refusal, client.WithFieldValidation(admin, "Strict").Create(t.Context(), o))
		})
	}
}

func TestKubectlGetShowsThePrinterColumnsOfDroversKinds(t *testing.T) {
	ns := namespace(t, admin)
	machine := merge(t, parse(goodMachine), `{spec: {providerID: "openstack:///42"}, status: {providerStatus: {zone: dbl7}, phase: Running, errorReason: Unknown, nodeRef: {name: good-node}, addresses: [{type: InternalIP, address: 10.0.0.9}]}}`)
	deployment := merge(t, parse(goodDeployment), `{metadata: {annotations: {cluster.k8s.io/cluster-api-autoscaler-node-group-min-size: "3", cluster.k8s.io/cluster-api-autoscaler-node-group-max-size: "11"}}}`)
	for _, o := range []*unstructured.Unstructured{machine, deployment, parse(goodSet), parse(goodClass), parse(goodCluster)} {
		o.SetNamespace(ns)
		create(t.Context(), t, admin, o)
	}
	deployment.Object["status"] = map[string]any{"replicas": int64(21), "updatedReplicas": int64(22), "readyReplicas": int64(23), "availableReplicas": int64(24)}
	if err := admin.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		wide  bool
		holds []string
	}{
		{"ma", false, []string{"PHASE", "NODE", "SERVER", "ZONE", "dbl7", "ADDRESS", "KUBELET", "AGE", "Running", "good-node", "openstack:///42", "10.0.0.9", "v1.36.2", "Unknown"}},
		{"ma", true, []string{"PROVIDER", "OS", "FLAVOR", "openstack", "ubuntu", "m1.small"}},
		{"md", false, []string{"DESIRED", "READY", "UPDATED", "AVAILABLE", "STATUS", "ROLLOUT", "BACK-OFF", "KUBELET", "AGE", "22", "23", "24", "1.36.2"}},
		{"md", true, []string{"MIN", "MAX", " 3 ", " 11 ", "FROZEN", "ZONE"}},
		{"ms", false, []string{"DESIRED", "CURRENT", "READY", "AVAILABLE", "DEPLOYMENT", "KUBELET", "AGE", "1.36.2"}},
		{"ms", true, []string{"FROZEN"}},
		{"machineclasses", false, []string{"PROVIDER", "FLAVOR", "m1.small"}},
		{"clusters.cluster.k8s.io", false, []string{"SERVICE-DOMAIN", "cluster.local"}},
	} {
		args := []string{"-n", ns, "get", row.name}
		if row.wide {
			args = append(args, "-o", "wide")
		}
		out := kubectl(t, args...)
		for _, want := range row.holds {
			if !strings.Contains(out, want) {
				t.Errorf("kubectl %s does not show %q:\n%s", strings.Join(args, " "), want, out)
			}
		}
	}
}

// A deployment whose Machines have all failed. drover has written this status.
func TestTheOutputOfKubectlGet(t *testing.T) {
	ns := namespace(t, admin)
	d := merge(t, parse(goodDeployment), `{spec: {replicas: 2}}`)
	set := merge(t, parse(goodSet), `{spec: {replicas: 2}}`)
	for _, o := range []*unstructured.Unstructured{d, set} {
		o.SetNamespace(ns)
		create(t.Context(), t, admin, o)
	}
	now := metav1.NewTime(time.Unix(1800000000, 0))
	for o, status := range map[*unstructured.Unstructured]any{
		d: &v1alpha1.MachineDeploymentStatus{
			Replicas: 2, UpdatedReplicas: 2,
			Backoffs: []v1alpha1.GroupBackoff{{Class: "Invalid", Code: "FlavorNotFound", Until: now}},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "MachinesFailed", LastTransitionTime: now},
				{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: "MachineSetUpdated", LastTransitionTime: now},
			},
		},
		set: &v1alpha1.MachineSetStatus{Replicas: 2},
	} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
		if err != nil {
			t.Fatal(err)
		}
		o.Object["status"] = fields
		if err := admin.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("kubectl get md shows a failing deployment with 0 ready Machines and the reason of the failure (F-46)", func(t *testing.T) {
		row := lastRow(kubectl(t, "-n", ns, "get", "md"))
		if want := "good 2 0 2 0 MachinesFailed MachineSetUpdated FlavorNotFound 1.36.2"; !strings.HasPrefix(row, want) {
			t.Errorf("got %q, want %q and an age", row, want)
		}
	})
	t.Run("kubectl get ms shows the set of a failing deployment with 0 ready Machines (F-46)", func(t *testing.T) {
		if row := lastRow(kubectl(t, "-n", ns, "get", "ms")); !strings.HasPrefix(row, "good 2 2 0 0 ") {
			t.Errorf("got %q", row)
		}
	})
	t.Run("kubectl get drover lists objects of all of drover's kinds (F-46)", func(t *testing.T) {
		for _, o := range []*unstructured.Unstructured{parse(goodMachine), parse(goodClass), parse(goodCluster)} {
			o.SetNamespace(ns)
			create(t.Context(), t, admin, o)
		}
		out := kubectl(t, "-n", ns, "get", "drover", "-o", "name")
		for _, want := range []string{"cluster.cluster.k8s.io/", "machine.cluster.k8s.io/", "machineclass.cluster.k8s.io/", "machinedeployment.cluster.k8s.io/", "machineset.cluster.k8s.io/"} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not list a %s:\n%s", want, out)
			}
		}
	})
}

// lastRow returns the last line of a table, with its cells separated by one space.
func lastRow(table string) string {
	rows := strings.Split(strings.TrimSpace(table), "\n")
	return strings.Join(strings.Fields(rows[len(rows)-1]), " ")
}

func TestKubectlExplainDescribesTheFieldsOfDroversKinds(t *testing.T) {
	for path, want := range map[string]string{
		"machinedeployment.spec.replicas":                                                  "nil means that the writer",
		"machine.spec.providerSpec.value.cloudProviderSpec.flavor":                         "Flavor of the server",
		"machineset.spec.template.spec.providerSpec.value.cloudProviderSpec.serverGroupID": "another spelling",
		"machineclass.providerSpec.operatingSystem":                                        "ubuntu or flatcar",
		"machine.status.conditions.reason":                                                 "one word",
	} {
		if out := strings.Join(strings.Fields(kubectl(t, "explain", path)), " "); !strings.Contains(out, want) {
			t.Errorf("kubectl explain %s does not say %q: %s", path, want, out)
		}
	}
}

func TestApplyingTheManifestsAgainChangesNothing(t *testing.T) {
	all := func() map[string]string {
		found := map[string]string{}
		for _, o := range objects(t) {
			found[o.GetKind()+"/"+o.GetName()] = text(t, strip(fetch(t, o)))
		}
		return found
	}
	for _, o := range objects(t, "policies") {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			typeChecked(t, o)
		}
	}
	before := all()
	if err := deploy.Apply(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, all()); diff != "" {
		t.Errorf("objects changed (-before +after):\n%s", diff)
	}
}

func TestReadingManifestsFromAMissingFolderReturnsAnError(t *testing.T) {
	if _, err := deploy.Objects("crd"); err == nil || !strings.Contains(err.Error(), `no folder "crd"`) {
		t.Errorf("reading a missing folder: %v", err)
	}
}
