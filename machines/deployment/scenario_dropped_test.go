package deployment_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// rewrite writes the whole deployment like a program whose types lack spec.removals and spec.placeholderSeries, so that these
// fields are dropped. change alters other fields.
func (h *harness) rewrite(name string, change func(*unstructured.Unstructured)) {
	h.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v1alpha1.MachineDeploymentKind)
		if err := h.client.Get(h.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, o); err != nil {
			return err
		}
		for _, field := range []string{"removals", "placeholderSeries"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
		change(o)
		return h.client.Update(h.t.Context(), o)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// droppedFields tests drover together with programs that write whole deployments, such as operating-system-manager.
func (h *harness) droppedFields(t *testing.T) {
	annotate := func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"rewritten": "yes"}) }
	t.Run("the Machine in spec.removals is deleted even when the write that unpauses the deployment drops spec.removals (F-5)", func(t *testing.T) {
		t.Parallel()
		h := h.on(t)
		h.lists("dropped", h.removedAndDropped("dropped", annotate))
	})
	t.Run("a removal that drover has seen is restored after a client dropped it from spec.removals (F-5)", func(t *testing.T) {
		t.Parallel()
		h := h.on(t)
		h.create(group("dropped-later", size(3)))
		h.settled("dropped-later", 3)
		before := h.machines("dropped-later")
		h.actor.hold("dropped-later", deletes)
		h.remove("dropped-later", before[1])
		h.rewrite("dropped-later", annotate)
		h.lists("dropped-later", before[1])
		h.actor.letGo("dropped-later")
		h.survivors("dropped-later", before, before[1], 2)
		h.rewrite("dropped-later", annotate)
		h.lists("dropped-later", before[1])
	})
	t.Run("spec.placeholderSeries is restored after a client dropped it (F-5)", func(t *testing.T) {
		t.Parallel()
		h := h.on(t)
		h.create(group("series", size(1)))
		h.patch("series", `{"spec":{"placeholderSeries":4}}`)
		h.settled("series", 1)
		h.rewrite("series", annotate)
		h.eventually("the series", func() (string, bool) {
			got := h.get("series").Spec.PlaceholderSeries
			return fmt.Sprint(got), got != nil && *got == 4
		})
	})
	t.Run("drover deletes the Machine in spec.removals and restores spec.replicas even when the unpausing write drops both fields (F-5)", func(t *testing.T) {
		t.Parallel()
		h := h.on(t)
		h.removedAndDropped("size-too", func(o *unstructured.Unstructured) {
			annotate(o)
			unstructured.RemoveNestedField(o.Object, "spec", "replicas")
		})
	})
}

// removedAndDropped creates a deployment of four Machines, pauses it, and names one Machine for removal. Then it writes the
// whole deployment without the removal and without the pause. It waits until only the named Machine is gone, and returns that
// Machine.
func (h *harness) removedAndDropped(name string, change func(*unstructured.Unstructured)) v1alpha1.Machine {
	h.t.Helper()
	h.create(group(name, size(4)))
	h.settled(name, 4)
	before := h.machines(name)
	h.patch(name, `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
	h.remove(name, before[1])
	h.rewrite(name, change)
	h.survivors(name, before, before[1], 3)
	return before[1]
}

// lists waits until the deployment names a Machine for removal.
func (h *harness) lists(name string, m v1alpha1.Machine) {
	h.t.Helper()
	h.eventually("the removal of "+m.Name, func() (string, bool) {
		all := h.get(name).Spec.Removals
		for _, r := range all {
			if r.UID == m.UID && r.Name == m.Name {
				return "", true
			}
		}
		return fmt.Sprint(all), false
	})
}
