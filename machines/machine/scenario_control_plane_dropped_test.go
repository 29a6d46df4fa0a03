package machine_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// replaces writes the whole Machine without its status, as kubectl replace does with a manifest. While the Machine has no
// Node, the write also drops the provider ID; later the policy drover-machine-spec forbids that.
func (w *world) replaces(m *v1alpha1.Machine) {
	w.t.Helper()
	w.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Machine"))
		if err := w.client.Get(w.ctx, client.ObjectKeyFromObject(m), o); err != nil {
			return err
		}
		if _, joined, _ := unstructured.NestedMap(o.Object, "status", "nodeRef"); !joined {
			unstructured.RemoveNestedField(o.Object, "spec", "providerID")
		}
		delete(o.Object, "status")
		return w.client.Update(w.ctx, o)
	}))
}

// testReplaced checks that drover restores what replaces has dropped, at different times in the life of a Machine.
func (w *world) testReplaced(t *testing.T) {
	m := w.create("replaced", nil)
	w.until(m, "it has a server", hasServer)
	id := *m.Spec.ProviderID
	same := func(m *v1alpha1.Machine) bool { return ptr.Deref(m.Spec.ProviderID, "") == id }

	inOrder(t, "while its server is being built, and keeps the server (F-5)", func(*testing.T) {
		w.replaces(m)
		w.until(m, "its provider ID is back", same)
	})
	w.boot(m)
	w.until(m, "it is Ready", isReady)
	node := w.node("replaced").UID
	inOrder(t, "while it is Ready, and keeps its Node and the time since which it is Ready (F-5)", func(t *testing.T) {
		before := m.DeepCopy()
		w.replaces(m)
		w.until(m, "its status is back", func(m *v1alpha1.Machine) bool {
			return same(m) && isReady(m) && m.Status.NodeRef != nil && ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning
		})
		was, is := find(before, v1alpha1.ConditionReady), find(m, v1alpha1.ConditionReady)
		if w.node("replaced").UID != node || m.Status.NodeRef.UID != node || !is.LastTransitionTime.Equal(was.LastTransitionTime) {
			t.Errorf("status %+v, before %+v", m.Status, before.Status)
		}
	})
	inOrder(t, "when it is being deleted, and its deletion then leaves no server or port in the cloud (F-5)", func(t *testing.T) {
		w.cloud.change(m.UID, func(s *fakeServer) { s.slow = true })
		w.must(w.client.Delete(w.ctx, m))
		w.until(m, "the deletion of its server is requested", func(*v1alpha1.Machine) bool { return w.cloud.count("DeleteServer replaced") > 0 })
		w.replaces(m)
		w.until(m, "its status is back", func(m *v1alpha1.Machine) bool { return same(m) && m.Status.NodeRef != nil })
		w.cloud.change(m.UID, func(s *fakeServer) { s.exists = false })
		w.until(m, "it is gone", gone)
		if made, releases := w.cloud.count("EnsureServer replaced"), w.cloud.count("Release replaced"); made != 1 || releases == 0 {
			t.Errorf("%d servers, %d releases", made, releases)
		}
	})
}
