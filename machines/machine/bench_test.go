package machine_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// drains is how many nodes are drained in parallel.
const drains = 100

// guarded creates a Machine with a Ready Node. A disruption budget keeps one pod on the Node.
func (w *world) guarded(name string) *v1alpha1.Machine {
	w.t.Helper()
	m := w.create(name, nil)
	w.until(m, "it has a server", hasServer)
	w.cloud.change(m.UID, w.cloud.active)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: *m.Spec.ProviderID}}
	w.must(w.client.Create(w.ctx, node))
	base := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	w.must(w.client.Status().Patch(w.ctx, node, client.MergeFrom(base)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded-" + name, Namespace: "default", Labels: map[string]string{"app": "guarded"}},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "none"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	w.must(wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return w.client.Create(ctx, pod) == nil, nil
	}))
	old := pod.DeepCopy()
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.must(w.client.Status().Patch(w.ctx, pod, client.MergeFrom(old)))
	return m
}

// processor returns the CPU time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBlockedDrains measures the CPU use of a hundred drains that a disruption budget blocks, in percent of a core, and
// the CPU use of the same process without these drains. The target is below 5 %.
func BenchmarkBlockedDrains(b *testing.B) {
	w := newWorld(b)
	w.must(w.client.Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromString("100%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}))
	var machines []*v1alpha1.Machine
	for i := range drains {
		machines = append(machines, w.guarded(fmt.Sprintf("bench-%03d", i)))
	}
	percent := func(span time.Duration) float64 {
		began, at := processor(b), time.Now()
		<-time.After(span)
		return 100 * float64(processor(b)-began) / float64(time.Since(at))
	}
	rest := percent(10 * time.Second)
	for _, m := range machines {
		w.must(w.client.Delete(w.ctx, m))
	}
	for _, m := range machines {
		w.until(m, "its drain is blocked", func(m *v1alpha1.Machine) bool {
			return strings.HasPrefix(find(m, v1alpha1.ConditionDeleting).Message, "evictions are refused")
		})
	}
	for b.Loop() {
		b.ReportMetric(percent(30*time.Second), "%core")
	}
	b.ReportMetric(rest, "%core-at-rest")
	b.ReportMetric(0, "ns/op")
	if n := w.cloud.count("DeleteServer"); n != 0 {
		b.Errorf("%d servers were deleted", n)
	}
}
