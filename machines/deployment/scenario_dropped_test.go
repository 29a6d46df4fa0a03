package deployment_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// rewrite writes the whole deployment as a program does that does not know some of its fields: it drops them. change alters
// the rest.
func (w *world) rewrite(name string, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v1alpha1.MachineDeploymentKind)
		if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, o); err != nil {
			return err
		}
		for _, field := range []string{"removals", "placeholderSeries"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
		change(o)
		return w.client.Update(w.t.Context(), o)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// wholeObjects are programs such as operating-system-manager that write whole deployments.
func (w *world) wholeObjects(t *testing.T) {
	annotate := func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"rewritten": "yes"}) }
	t.Run("a removal that is dropped before anything was done about it is carried out (F-5)", func(t *testing.T) {
		t.Parallel()
		w := w.on(t)
		w.lists("dropped", w.removedAndDropped("dropped", annotate))
	})
	t.Run("a removal that is dropped later comes back to the list (F-5)", func(t *testing.T) {
		t.Parallel()
		w := w.on(t)
		w.create(group("dropped-later", size(3)))
		w.settled("dropped-later", 3)
		before := w.machines("dropped-later")
		w.actor.hold("dropped-later", deletes)
		w.remove("dropped-later", before[1])
		w.rewrite("dropped-later", annotate)
		w.lists("dropped-later", before[1])
		w.actor.letGo("dropped-later")
		w.survivors("dropped-later", before, before[1], 2)
		w.rewrite("dropped-later", annotate)
		w.lists("dropped-later", before[1])
	})
	t.Run("a placeholder series that is dropped comes back (F-5)", func(t *testing.T) {
		t.Parallel()
		w := w.on(t)
		w.create(group("series", size(1)))
		w.patch("series", `{"spec":{"placeholderSeries":4}}`)
		w.settled("series", 1)
		w.rewrite("series", annotate)
		w.eventually("the series", func() (string, bool) {
			got := w.get("series").Spec.PlaceholderSeries
			return fmt.Sprint(got), got != nil && *got == 4
		})
	})
	t.Run("a removal and the size that are dropped both come back (F-5)", func(t *testing.T) {
		t.Parallel()
		w := w.on(t)
		w.removedAndDropped("size-too", func(o *unstructured.Unstructured) {
			annotate(o)
			unstructured.RemoveNestedField(o.Object, "spec", "replicas")
		})
	})
}

// removedAndDropped names one of four Machines of a new deployment for removal while nothing is done about it, and writes the
// whole deployment without the removal. From that write on the deployment is no longer paused. It waits until the named
// Machine is gone and the others are there, and returns the named one.
func (w *world) removedAndDropped(name string, change func(*unstructured.Unstructured)) v1alpha1.Machine {
	w.t.Helper()
	w.create(group(name, size(4)))
	w.settled(name, 4)
	before := w.machines(name)
	w.patch(name, `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
	w.remove(name, before[1])
	w.rewrite(name, change)
	w.survivors(name, before, before[1], 3)
	return before[1]
}

// lists waits until the deployment names a Machine for removal.
func (w *world) lists(name string, m v1alpha1.Machine) {
	w.t.Helper()
	w.eventually("the removal of "+m.Name, func() (string, bool) {
		all := w.get(name).Spec.Removals
		for _, r := range all {
			if r.UID == m.UID && r.Name == m.Name {
				return "", true
			}
		}
		return fmt.Sprint(all), false
	})
}
