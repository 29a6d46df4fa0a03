package deploy_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scaled writes a size through /scale, as kubectl scale does.
func scaled(ctx context.Context, c client.Client, o *unstructured.Unstructured, replicas int64) error {
	scale := parse(`{apiVersion: autoscaling/v1, kind: Scale}`)
	if err := c.SubResource("scale").Get(ctx, o, scale); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(scale.Object, replicas, "spec", "replicas"); err != nil {
		return err
	}
	return c.SubResource("scale").Update(ctx, o, client.WithSubResourceBody(scale))
}

func TestTheMaximumSizeOfDeploymentsAndSets(t *testing.T) {
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		o := existing(t, parse(goodObjects[kind]))
		const refusal = "should be less than or equal to 100000"
		t.Run(kind+": the schema refuses a patch to a size above 100000 (F-29)", func(t *testing.T) {
			expect(t, refusal, mergePatch(t.Context(), admin, o, `{"spec":{"replicas":2000000000}}`))
		})
		t.Run(kind+": the schema refuses a size above 100000 through /scale (F-29)", func(t *testing.T) {
			expect(t, refusal, scaled(t.Context(), admin, o, 2_000_000_000))
		})
		t.Run(kind+": the schema refuses a new object with a size above 100000 (F-29)", func(t *testing.T) {
			fresh := merge(t, parse(goodObjects[kind]), `{metadata: {name: other}, spec: {replicas: 100001}}`)
			fresh.SetNamespace(o.GetNamespace())
			expect(t, refusal, admin.Create(t.Context(), fresh, client.DryRunAll))
		})
		t.Run(kind+": the schema accepts a size of 100000 (F-29)", func(t *testing.T) {
			expect(t, "", scaled(t.Context(), admin, o, 100_000))
		})
	}
	t.Run("kubectl scale to a size above 100000 fails with an error that names the maximum (F-29)", func(t *testing.T) {
		o := existing(t, parse(goodDeployment))
		_, err := cluster.Kubectl(t.Context(), "scale", "--replicas=2000000000", "-n", o.GetNamespace(), "machinedeployment/good")
		expect(t, "spec.replicas in body should be less than or equal to 100000", err)
	})
}

// withoutMaximum returns the CRDs as they were before spec.replicas had a maximum.
func withoutMaximum(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	crds := slices.DeleteFunc(objects(t, "crds"), func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	for _, crd := range crds {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas", "maximum")
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
	}
	return crds
}

// put applies objects server-side, and takes over fields of other field managers.
func put(t *testing.T, c client.Client, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// become waits until the given function returns true, because the API server enforces new CRDs and policies with a delay.
func become(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { return is(ctx), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
