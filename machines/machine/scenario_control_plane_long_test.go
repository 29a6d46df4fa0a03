//go:build cluster

package machine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// TestLongDeletionsOnARealControlPlane tests deletions that wait for timers of drover and of the control plane for most
// of a minute. TestForcedDeletionEndsWhateverTheCloudAnswers and TestWhetherADeletionPutsTheNodeOutOfService check the
// same rules without a real control plane.
func TestLongDeletionsOnARealControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("a deletion that is forced during the drain ends although the cloud refuses calls, and an Event names what may be left (MC-65, MCM-57)", w.testForce)
	t.Run("the control plane deletes the pods of a server that cannot be started, and drover deletes the server afterwards", w.testShutDown)
}

func (w *world) testForce(t *testing.T) {
	m := w.ready("forced")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stays", Namespace: "default", Finalizers: []string{"drover.example/stays"}},
		Spec: corev1.PodSpec{NodeName: "forced", Containers: []corev1.Container{{Name: "c", Image: "none"}}, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(w.client.Create(w.ctx, pod))
	w.cloud.mu.Lock()
	w.cloud.refusal = fault.New(fault.Auth, fault.CodeForbidden, "you may not")
	w.cloud.mu.Unlock()
	defer func() {
		w.cloud.mu.Lock()
		w.cloud.refusal = nil
		w.cloud.mu.Unlock()
	}()
	w.must(w.client.Delete(w.ctx, m))
	w.until(m, "it waits for its pods", func(m *v1alpha1.Machine) bool {
		return find(m, v1alpha1.ConditionDeleting).Reason == "DrainingNode"
	})
	w.annotated(m, v1alpha1.AnnotationForceDelete, "true")
	w.until(m, "it is gone", gone)
	told := func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := w.client.List(ctx, &list)
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "forced" && strings.Contains(e.Note, "may be left")
		}), err
	}
	if err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, 30*time.Second, true, told); err != nil {
		t.Errorf("no Event names what may be left: %v", err)
	}
}

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
