//go:build cluster

package deploy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// family creates a deployment, its set and the set's Machine, with drover's finalizers and all values that drover writes.
func family(t *testing.T, ns string) (deployment, set, machine *unstructured.Unstructured) {
	t.Helper()
	deployment = guardedValue{kind: "MachineDeployment", before: byDrover["MachineDeployment"]}.stored(t, ns, "d")
	set = guardedValue{kind: "MachineSet", before: byDrover["MachineSet"]}.owned(t, ns, "s", deployment)
	machine = guardedValue{kind: "Machine", before: byDrover["Machine"]}.owned(t, ns, "m", set)
	return deployment, set, machine
}

// owned creates an object of the guarded value's kind, with the given object as its controller.
func (g guardedValue) owned(t *testing.T, ns, name string, by *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	o := merge(t, parse(goodObjects[g.kind]), g.before)
	o.SetNamespace(ns)
	o.SetName(name)
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(by, by.GroupVersionKind())})
	return create(t.Context(), t, admin, o)
}

// finish removes drover's finalizers from a Machine, as drover does at the end of the Machine's deletion.
func finish(t *testing.T, drover client.Client, machine *unstructured.Unstructured) {
	t.Helper()
	eventually(t, machine, func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
	expect(t, "", mergePatch(t.Context(), drover, machine, `{"metadata":{"finalizers":null}}`))
}

// gone waits until the objects no longer exist.
func gone(t *testing.T, all ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			t.Fatalf("waiting until %s %s is gone: %v; its finalizers are %v", o.GetKind(), o.GetName(), err, o.GetFinalizers())
		}
	}
}

// The guard policies must not stop the garbage collector and the namespace controller, which delete objects and remove
// finalizers and owner references.
func TestTheGuardPoliciesDoNotStopKubernetesGarbageCollection(t *testing.T) {
	drover := person{namespace: "drover"}
	drover.login(t, account)
	// The first row also waits until the garbage collector has discovered drover's kinds, which takes some time after the
	// start of the control plane.
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		t.Run(fmt.Sprintf("a deployment that a user deletes with propagation policy %s disappears together with its set and its Machine (F-5)", propagation), func(t *testing.T) {
			p := author(t)
			deployment, set, machine := family(t, p.namespace)
			expect(t, "", p.Delete(t.Context(), deployment, client.PropagationPolicy(propagation)))
			finish(t, drover, machine)
			gone(t, machine, set, deployment)
		})
	}
	t.Run("a set that a user deletes with propagation policy Orphan disappears, and its Machine stays (F-5)", func(t *testing.T) {
		t.Parallel()
		p := author(t)
		set := guardedValue{kind: "MachineSet"}.stored(t, p.namespace, "s")
		machine := guardedValue{kind: "Machine", before: byDrover["Machine"]}.owned(t, p.namespace, "m", set)
		expect(t, "", p.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		gone(t, set)
		left := eventually(t, machine, func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 0 })
		if left.GetDeletionTimestamp() != nil {
			t.Error("the Machine is being deleted")
		}
	})
	t.Run("a deleted namespace disappears together with the deployment, set and Machine in it (F-5)", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, admin)
		deployment, set, machine := family(t, ns)
		if err := admin.Delete(t.Context(), namespaceOf(ns)); err != nil {
			t.Fatal(err)
		}
		finish(t, drover, machine)
		gone(t, machine, set, deployment, namespaceOf(ns))
	})
}
