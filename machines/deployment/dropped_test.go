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
		w.create(group("dropped", size(4)))
		w.settled("dropped", 4)
		before := w.machines("dropped")
		w.patch("dropped", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
		w.remove("dropped", before[1])
		// The deployment is no longer paused from this write on, which drops the removal.
		w.rewrite("dropped", annotate)
		w.survivors("dropped", before, before[1], 3)
		w.lists("dropped", before[1])
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
		w.create(group("size-too", size(4)))
		w.settled("size-too", 4)
		before := w.machines("size-too")
		w.patch("size-too", `{"metadata":{"annotations":{"cluster.k8s.io/paused":"yes"}}}`)
		w.remove("size-too", before[2])
		w.rewrite("size-too", func(o *unstructured.Unstructured) {
			annotate(o)
			unstructured.RemoveNestedField(o.Object, "spec", "replicas")
		})
		w.survivors("size-too", before, before[2], 3)
	})
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
