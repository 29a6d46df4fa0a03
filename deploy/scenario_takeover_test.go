package deploy_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/test/machinecontroller"
)

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
