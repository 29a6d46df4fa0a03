package deploy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	t.Run("drover's schemas refuse an unknown field that machine-controller's schemas accepted", func(t *testing.T) {
		unknown := merge(t, parse(goodMachine), `{metadata: {namespace: default}, spec: {taint: []}}`)
		err := client.WithFieldValidation(c, "Strict").Create(t.Context(), unknown, client.DryRunAll)
		expect(t, `unknown field "spec.taint"`, err)
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

// applyStatus writes an object's status by server-side apply, as drover's controllers do.
func applyStatus(t *testing.T, c client.Client, of *unstructured.Unstructured) error {
	t.Helper()
	said := &unstructured.Unstructured{}
	said.SetGroupVersionKind(of.GroupVersionKind())
	said.SetName(of.GetName())
	said.SetNamespace(of.GetNamespace())
	said.SetUID(of.GetUID())
	as := client.ApplyConfigurationFromUnstructured(said)
	if of.GetKind() == "Machine" {
		// The status is written with a patch, because the API server refuses an apply where a stored value does not have the
		// declared type.
		return mergePatch(t.Context(), c, said, `{"status":{"phase":"Running"}}`)
	}
	said.Object["status"] = map[string]any{"replicas": int64(4)}
	return c.Status().Apply(t.Context(), as, client.FieldOwner("test"), client.ForceOwnership)
}

// text returns an object as JSON without managedFields, with sorted fields.
func text(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	raw, err := json.MarshalIndent(o.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// machine-controller decodes a whole Machine into its types and writes it back, including the status. That must still work
// under drover's CRDs and policies: docs/decisions/0001.
func TestAnUpdateOfAWholeMachineAlsoWritesItsStatus(t *testing.T) {
	o := existing(t, merge(t, parse(goodMachine), `{spec: {metadata: null, versions: null, providerSpec: {value: {cloudProvider: null}}}}`))
	raw, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var typed machinecontroller.Machine
	if err := json.Unmarshal(raw, &typed); err != nil {
		t.Fatal(err)
	}
	reason, id := "CreateError", "openstack:///1"
	typed.Status.ErrorReason = &reason
	typed.Spec.ProviderID = &id
	typed.Spec.Name = o.GetName()
	if raw, err = json.Marshal(typed); err != nil {
		t.Fatal(err)
	}
	back := parse(string(raw))
	if err := admin.Update(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(back), back); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(back.Object, "status", "errorReason"); got != reason {
		t.Errorf("status.errorReason is %q after a whole-object update, want %q", got, reason)
	}
}

// A late apply of a status must not create a deleted Machine again.
func TestApplyingAStatusWithTheUIDOfADeletedMachineCreatesNoMachine(t *testing.T) {
	o := existing(t, parse(goodMachine))
	if err := admin.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	late := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: Machine, metadata: {name: good}, status: {phase: Running}}`)
	late.SetNamespace(o.GetNamespace())
	late.SetUID(o.GetUID())
	err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(late), client.FieldOwner("test"), client.ForceOwnership)
	if err == nil {
		t.Fatal("it was re-created")
	}
	list := parse(`{apiVersion: cluster.k8s.io/v1alpha1, kind: MachineList}`)
	found, listErr := unstructuredList(t, list, o.GetNamespace())
	if listErr != nil || found != 0 {
		t.Errorf("%d Machines are there (%v), after: %v", found, listErr, err)
	}
}

func unstructuredList(t *testing.T, of *unstructured.Unstructured, ns string) (int, error) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(of.GroupVersionKind())
	err := admin.List(t.Context(), list, client.InNamespace(ns))
	return len(list.Items), err
}
