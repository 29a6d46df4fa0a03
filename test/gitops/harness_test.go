package gitops

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube"
)

// autoscaler is the field manager under which drover changes a group for the autoscaler.
const autoscaler = "drover-nodegroup"

// world is a cluster with drover's kinds and without controllers.
type world struct {
	*testing.T
	kube   *kube.Cluster
	client client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, kube: kube.ForTest(t, kube.Options{})}
	var err error
	if w.client, err = client.New(w.kube.Config, client.Options{}); err == nil {
		err = deploy.Apply(t.Context(), w.client, "crds")
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) in(t *testing.T) *world { return &world{t, w.kube, w.client} }

var kind = schema.GroupVersionKind{Group: "cluster.k8s.io", Version: "v1alpha1", Kind: "MachineDeployment"}

// manifest returns the manifest of a node group as a user writes it. If replicas is negative, the manifest names no
// size.
func manifest(name string, replicas int) string {
	size := ""
	if replicas >= 0 {
		size = fmt.Sprintf("\n  replicas: %d", replicas)
	}
	return fmt.Sprintf(`apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: %[1]s
  namespace: kube-system
  annotations:
    cluster.k8s.io/cluster-api-autoscaler-node-group-min-size: "0"
    cluster.k8s.io/cluster-api-autoscaler-node-group-max-size: "9"
spec:%[2]s
  selector: {matchLabels: {name: %[1]s}}
  template:
    metadata: {labels: {name: %[1]s}}
    spec:
      versions: {kubelet: 1.37.1}
      providerSpec: {value: {cloudProvider: openstack, operatingSystem: ubuntu, cloudProviderSpec: {flavor: m1.small}}}
`, name, size)
}

func (w *world) parse(text string) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *world) get(name string) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, o); err != nil {
		w.Fatal(err)
	}
	return o
}

// scales lowers the size by one write, as drover does when the autoscaler removes a Machine, and adds the fields that
// drover's controller adds.
func (w *world) scales(name string, size int) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"finalizers":["foregroundDeletion"],"annotations":{"machinedeployment.clusters.k8s.io/revision":"1"}},"spec":{"replicas":%d,"placeholderSeries":1,`+
		`"removals":[{"name":"m","uid":"00000000-0000-0000-0000-000000000001","time":"2026-01-01T00:00:00Z"}]}}`, size)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace("kube-system")
	o.SetName(name)
	if err := w.client.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(autoscaler)); err != nil {
		w.Fatal(err)
	}
}

// expect fails the test unless the group has the given size and still has the fields that drover added.
func (w *world) expect(name string, size int64) {
	w.Helper()
	o := w.get(name)
	got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	removals, _, _ := unstructured.NestedSlice(o.Object, "spec", "removals")
	series, _, _ := unstructured.NestedInt64(o.Object, "spec", "placeholderSeries")
	if got != size {
		w.Errorf("the size is %d, want %d", got, size)
	}
	if len(removals) != 1 || series != 1 || len(o.GetFinalizers()) != 1 || o.GetAnnotations()["machinedeployment.clusters.k8s.io/revision"] != "1" {
		w.Errorf("what drover added is lost: removals %v, series %d, finalizers %v, annotations %v", removals, series, o.GetFinalizers(), o.GetAnnotations())
	}
}

// helm is the path of Helm, which hack/tools pins. The first call on a machine compiles it.
var helm = sync.OnceValues(func() (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", "tool", "-modfile=hack/tools/go.mod", "-n", "helm")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// chart is a chart with one node group.
type chart struct {
	w       *world
	name    string
	dir     string
	program string
}

func (w *world) chart(name string) *chart {
	w.Helper()
	program, err := helm()
	if err != nil {
		w.Fatalf("building helm: %v", err)
	}
	c := &chart{w: w, name: name, dir: w.TempDir(), program: program}
	c.write("Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n")
	return c
}

func (c *chart) write(file, text string) {
	c.w.Helper()
	path := filepath.Join(c.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.w.Fatal(err)
	}
}

// runs installs or upgrades the chart with a size in its manifest.
func (c *chart) runs(verb string, replicas int, flags ...string) error {
	c.w.Helper()
	c.write("templates/group.yaml", manifest(c.name, replicas))
	args := append([]string{verb, c.name, c.dir, "--namespace=kube-system", "--kubeconfig=" + c.w.kube.Kubeconfig}, flags...)
	cmd := exec.CommandContext(c.w.Context(), c.program, args...)
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %v: %w\n%s", args, err, out)
	}
	return nil
}
