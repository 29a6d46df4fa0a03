//go:build cluster

package deploy_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/machinecontroller"
)

// The test stores objects with everything that machine-controller's permissive CRDs accept. Then it applies drover's CRDs,
// first without and then with a maximum of spec.replicas.
func TestDroversCRDsTakeOverStoredObjects(t *testing.T) {
	t.Parallel()
	on := kube.ForTest(t, kube.Options{})
	if out, err := on.Kubectl(t.Context(), "apply", "-f", "testdata/open-crds.yaml"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := on.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "-f", "testdata/open-crds.yaml"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := client.New(on.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stored := store(t, before)
	negative := create(t.Context(), t, before, parse(`
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineSet
metadata: {name: negative, namespace: default, finalizers: [foregroundDeletion]}
spec: {replicas: -3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}
`))
	testStoredSizes(t, before)

	c, err := install(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	for _, was := range stored {
		t.Run(was.GetKind()+"/"+was.GetName()+" is read back unchanged, and its finalizers can be removed while it is being deleted (MC-6)", func(t *testing.T) { keepsAndLetsGo(t, c, was) })
	}
	t.Run("drover's schemas accept an unknown field that machine-controller's schemas accepted (F-115)", func(t *testing.T) {
		unknown := merge(t, parse(goodMachine), `{metadata: {namespace: default}, spec: {taint: []}}`)
		err := client.WithFieldValidation(c, "Strict").Create(t.Context(), unknown, client.DryRunAll)
		expect(t, "", err)
	})
	// The API server itself forbids a negative size where there is a scale subresource, even in stored objects. Therefore the
	// write that removes a finalizer must correct the size.
	t.Run("a write that removes the finalizers of a MachineSet with a negative size must also correct the size (MC-6)", func(t *testing.T) {
		expect(t, "should be a non-negative integer", mergePatch(t.Context(), c, negative, `{"metadata":{"finalizers":null}}`))
		expect(t, "", mergePatch(t.Context(), c, negative, `{"metadata":{"finalizers":null},"spec":{"replicas":0}}`))
	})
}

// store creates objects of machine-controller with their statuses, and returns them as read back from the API server.
func store(t *testing.T, c client.Client) []*unstructured.Unstructured {
	t.Helper()
	f := &filler{}
	all := []*unstructured.Unstructured{
		f.object(t, "Machine", &machinecontroller.Machine{}), f.object(t, "MachineSet", &machinecontroller.MachineSet{}), f.object(t, "MachineDeployment", &machinecontroller.MachineDeployment{}),
	}
	raw, err := os.ReadFile("testdata/odd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		odd := parse(document)
		all = append(all, odd, withUnknownFields(t, odd))
	}
	all = append(all, read(t, "testdata/nodes.yaml"), read(t, "testdata/exported.yaml"))
	for _, o := range all {
		o.SetNamespace("default")
		o.SetResourceVersion("")
		status, hasStatus := o.Object["status"]
		create(t.Context(), t, c, o)
		if hasStatus && o.GetKind() != "Machine" {
			o.Object["status"] = status
			if err := c.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if _, has := o.Object["status"]; has != hasStatus {
			t.Fatalf("%s %s: the status is not as it was meant to be stored", o.GetKind(), o.GetName())
		}
	}
	return all
}

// withUnknownFields returns a copy with unknown fields in its provider document. Below a field that keeps unknown fields, the
// API server does not ratchet validation: it refuses an invalid value even when the value has not changed. Therefore drover's
// own rules must accept unchanged invalid values.
func withUnknownFields(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	path := []string{"spec", "template", "spec"}
	if o.GetKind() == "Machine" {
		path = path[:1]
	}
	odd := o.DeepCopy()
	odd.SetName("odd-" + o.GetName())
	spec, _, _ := unstructured.NestedMap(odd.Object, path...)
	if spec == nil {
		spec = map[string]any{}
	}
	spec["providerSpec"] = map[string]any{"value": map[string]any{"unheardOf": []any{nil, map[string]any{"deep": nil}}}}
	if err := unstructured.SetNestedField(odd.Object, spec, path...); err != nil {
		t.Fatal(err)
	}
	return odd
}

func keepsAndLetsGo(t *testing.T, c client.Client, was *unstructured.Unstructured) {
	now := was.DeepCopy()
	now.Object = map[string]any{"apiVersion": was.GetAPIVersion(), "kind": was.GetKind()}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(was), now); err != nil {
		t.Fatal(err)
	}
	if want, got := text(t, was), text(t, now); want != got {
		t.Fatalf("it does not read back as it was stored (-stored +now):\n%s", cmp.Diff(want, got))
	}
	// Ordinary writes are accepted: a label, and a controller's write of the status.
	expect(t, "", mergePatch(t.Context(), c, now, `{"metadata":{"labels":{"a":"b"}}}`))
	expect(t, "", applyStatus(t, c, was))
	// The object can be deleted, and its finalizers can be removed one by one.
	if err := c.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for rest := was.GetFinalizers(); len(rest) > 0; rest = rest[1:] {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(was), now); err != nil {
			t.Fatal(err)
		}
		now.SetFinalizers(rest[1:])
		expect(t, "", c.Update(t.Context(), now.DeepCopy()))
	}
	err := c.Get(t.Context(), client.ObjectKeyFromObject(was), now)
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it still exists: %v", err)
	}
}

// testStoredSizes stores sizes beyond the maximum in a cluster that has no policies yet, then applies the policies, and then CRDs with
// the maximum.
func testStoredSizes(t *testing.T, c client.Client) {
	t.Helper()
	put(t, c, withoutMaximum(t))
	stored := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		o := merge(t, parse(goodObjects[kind]), `{metadata: {namespace: default}, spec: {replicas: 2000000000}}`)
		become(t, kind+" is served", func(ctx context.Context) bool { return c.Create(ctx, o) == nil })
		stored[kind] = o
	}
	put(t, c, objects(t, "policies"))
	probe := merge(t, parse(goodDeployment), `{metadata: {name: probe, namespace: default}, spec: {replicas: 100001}}`)
	become(t, "the policy acts", func(ctx context.Context) bool {
		err := c.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "drover-sizes")
	})
	for kind, o := range stored {
		refusal := "spec.replicas is 1999999999, and a " + kind + " has at most 100000 Machines: give a smaller size"
		t.Run(kind+": the policy refuses a patch to a size above 100000 when the schema has no maximum (F-29)", func(t *testing.T) {
			expect(t, refusal, mergePatch(t.Context(), c, o, `{"spec":{"replicas":1999999999}}`))
		})
		t.Run(kind+": the policy refuses a size above 100000 through /scale when the schema has no maximum (F-29)", func(t *testing.T) {
			expect(t, refusal, scaled(t.Context(), c, o, 1_999_999_999))
		})
	}
	put(t, c, objects(t, "crds"))
	become(t, "the schema has a maximum", func(ctx context.Context) bool {
		return c.Create(ctx, probe.DeepCopy(), client.DryRunAll) != nil && strings.Contains(c.Create(ctx, probe.DeepCopy(), client.DryRunAll).Error(), "less than or equal to 100000")
	})
	for kind, o := range stored {
		t.Run(kind+": other fields can change while the stored size is above 100000 (F-29)", func(t *testing.T) {
			expect(t, "", mergePatch(t.Context(), c, o, `{"metadata":{"labels":{"a":"b"}},"spec":{"minReadySeconds":5}}`))
			status := merge(t, parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: `+kind+`, metadata: {namespace: default, name: good}}`), `{status: {observedGeneration: 1}}`)
			expect(t, "", c.Status().Patch(t.Context(), status, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":1}}`))))
		})
		t.Run(kind+": a stored size above 100000 can be corrected through /scale (F-29)", func(t *testing.T) {
			expect(t, "", scaled(t.Context(), c, o, 3))
		})
	}
}
