package machine_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// removed removes the taint of the template from the Node, as another program would, the given number of times. It returns how often drover put
// the taint back.
func (b *bench) removed(times int) (back int) {
	b.t.Helper()
	for range times {
		b.changes(func(n *corev1.Node) { n.Spec.Taints = nil })
		if hasTaint(b.node(), "gpu") {
			back++
		}
		b.wait(10 * time.Second)
	}
	return back
}

func TestWhatAnotherProgramKeepsRemovingFromANode(t *testing.T) {
	t.Run("is put back three times at most, and the condition Warnings names it and the flag for taints of other programs (F-129)", func(t *testing.T) {
		b := joined(t, templated)
		if back := b.removed(20); back < 1 || back > 3 {
			t.Errorf("put back %d times", back)
		}
		b.shown()
		c := find(b.read(), v1alpha1.ConditionWarnings)
		if !strings.Contains(c.Message, "taint gpu:NoSchedule") || !strings.Contains(c.Message, "--startup-requires") {
			t.Errorf("condition %+v", c)
		}
	})
	t.Run("is put back once an hour (F-129)", func(t *testing.T) {
		b := joined(t, templated)
		b.removed(20)
		b.wait(time.Hour)
		if back := b.removed(20); back != 1 {
			t.Errorf("put back %d times", back)
		}
	})
	t.Run("is put back each time if it is gone once in a while (F-129)", func(t *testing.T) {
		b := joined(t, templated)
		for range 10 {
			b.wait(30 * time.Minute)
			if b.removed(1) != 1 {
				t.Fatal("not put back")
			}
		}
	})
	t.Run("is a startup taint if its key says so: it is never put back, and ends the first start when it is gone (F-129)", func(t *testing.T) {
		const key = "startup-taint.cluster-autoscaler.kubernetes.io/cni"
		b := starting(t, startup)
		m := b.read()
		m.Spec.Taints = []corev1.Taint{taint(key, corev1.TaintEffectNoExecute)}
		b.update(m)
		b.registers(corev1.ConditionTrue, taint(key, corev1.TaintEffectNoExecute))
		b.pass()
		b.isStarting("taint " + key)
		b.changes(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] })
		b.shown()
		b.hasStarted()
		if hasTaint(b.node(), key) {
			t.Errorf("taints %v", b.node().Spec.Taints)
		}
	})
}
