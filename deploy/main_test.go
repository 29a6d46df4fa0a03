package deploy_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/kube"
)

// cluster is the cluster that all tests share, with all manifests of this package applied. Each test uses a namespace of its
// own.
var cluster *kube.Cluster

// admin is a client with the rights of the cluster's administrator.
var admin client.Client

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	cluster, err = kube.Start(ctx, kube.Options{Log: os.Stderr, Components: []kube.Component{kube.ControllerManager}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer cluster.Stop()
	if admin, err = install(ctx, cluster); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// install applies this package's manifests and waits until the API server enforces the policies.
func install(ctx context.Context, on *kube.Cluster) (client.Client, error) {
	c, err := client.New(on.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	if err := deploy.Apply(ctx, c); err != nil {
		return nil, err
	}
	return c, awaitPolicies(ctx, c)
}

// awaitPolicies waits until each policy has refused a request, because the API server enforces new policies a moment after it
// has stored them.
func awaitPolicies(ctx context.Context, c client.Client) error {
	machine := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: Machine, metadata: {name: policy-probe, namespace: default}}`)
	class := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: MachineClass, metadata: {name: policy-probe, namespace: default}}`)
	definition := parse(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: machines.cluster.k8s.io}}`)
	long := machine.DeepCopy()
	long.SetName(strings.Repeat("x", 64))
	wrong := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: Machine, metadata: {name: wrong, namespace: default}, spec: {providerSpec: {value: {cloudProvider: openstack}}}}`)
	for _, o := range []*unstructured.Unstructured{machine, class} {
		if err := c.Create(ctx, o); err != nil {
			return err
		}
	}
	refused := func(policy string, err error) bool {
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), policy)
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return refused("drover-crds", c.Delete(ctx, definition, client.DryRunAll)) &&
			refused("drover-names", c.Create(ctx, long.DeepCopy(), client.DryRunAll)) &&
			refused("drover-machine-spec", mergePatch(ctx, c, machine, `{"spec":{"versions":{"kubelet":"1.2.3"}}}`, client.DryRunAll)) &&
			refused("drover-machineclass-spec", mergePatch(ctx, c, class, `{"provider":"other"}`, client.DryRunAll)) &&
			refused("drover-template", c.Create(ctx, wrong.DeepCopy(), client.DryRunAll)), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the policies to act: %w", err)
	}
	for _, o := range []*unstructured.Unstructured{machine, class} {
		if err := c.Delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func mergePatch(ctx context.Context, c client.Client, o *unstructured.Unstructured, patch string, opts ...client.PatchOption) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), opts...)
}

// parse parses one YAML document from a test's source.
func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		panic(err)
	}
	return o
}

// namespace creates a namespace for one test.
func namespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := parse(`{apiVersion: v1, kind: Namespace, metadata: {generateName: test-}}`)
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.GetName()
}

// merge applies a YAML document to an object, as a JSON merge patch: null removes a field.
func merge(t *testing.T, base *unstructured.Unstructured, over string) *unstructured.Unstructured {
	t.Helper()
	patch := map[string]any{}
	if err := yaml.Unmarshal([]byte(over), &patch); err != nil {
		t.Fatalf("decoding %s: %v", over, err)
	}
	merged := base.DeepCopy()
	lay(merged.Object, patch)
	return merged
}

func lay(over, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		under, hasMap := over[key].(map[string]any)
		switch {
		case value == nil:
			delete(over, key)
		case isMap && hasMap:
			lay(under, inner)
		default:
			over[key] = value
		}
	}
}

// read parses a file of testdata that holds one object.
func read(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(string(raw))
}

// eventually reads an object until wanted returns true, and returns the object as last read.
func eventually(t *testing.T, o *unstructured.Unstructured, wanted func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	now := o.DeepCopy()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
			return false, err
		}
		return wanted(now), nil
	})
	if err != nil {
		t.Fatalf("waiting for %s %s: %v; it is %v", o.GetKind(), o.GetName(), err, now.Object)
	}
	return now
}
