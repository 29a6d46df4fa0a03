package machine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// testShutDown checks that the control plane's pod garbage collector deletes the pod of a server that does not start. The
// server's kubelet is off and would never confirm the end of the pod.
func (w *world) testShutDown(t *testing.T) {
	m := w.ready("off")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runs-on-off", Namespace: "default"},
		Spec: corev1.PodSpec{NodeName: "off", Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: ptr.To(int64(30)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(w.client.Create(w.ctx, pod))
	w.cloud.mu.Lock()
	w.cloud.starting, w.cloud.slow = refusing, true
	w.cloud.mu.Unlock()
	defer func() {
		w.cloud.mu.Lock()
		w.cloud.starting, w.cloud.slow = nil, false
		w.cloud.mu.Unlock()
	}()
	var id string
	w.cloud.change(m.UID, func(s *fakeServer) { s.State, s.Status, id = cloud.ServerStopped, "SHUTOFF", s.ID })
	w.died(id)
	w.until(m, "its server does not start", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionServerReady).Reason == "ServerWontStart" && m.Status.ServerStart != nil && m.Status.ServerStart.Failure != ""
	})
	w.notReady("off")

	w.must(w.client.Delete(w.ctx, m))
	w.eventually("its pod is gone, and its server still exists", func() bool {
		return apierrors.IsNotFound(w.client.Get(w.ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}))
	})
	if !outOfService(w.node("off")) {
		t.Errorf("its Node is not out of service: %+v", w.node("off").Spec)
	}
	w.cloud.change(m.UID, func(s *fakeServer) { s.exists = false })
	w.until(m, "it is gone", gone)
}

// notReady sets a Node NotReady immediately, without waiting until the Node's lease expires.
func (w *world) notReady(name string) {
	w.t.Helper()
	n := w.node(name)
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", metav1.Now()
		}
	}
	w.must(w.client.Status().Update(w.ctx, n))
}
