package sandbox

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/test/kubelet"
)

func TestWhichNodesTheSandboxCountsAsUsable(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ready  corev1.ConditionStatus
		closed bool
		taint  corev1.Taint
		want   bool
	}{
		{"a Ready Node is usable (F-47)", corev1.ConditionTrue, false, corev1.Taint{}, true},
		{"a Node that is not Ready is not usable (F-47)", corev1.ConditionFalse, false, corev1.Taint{}, false},
		{"a cordoned Node is not usable (F-47)", corev1.ConditionTrue, true, corev1.Taint{}, false},
		{"a Node that the cloud-controller-manager has not initialized is not usable (F-47)", corev1.ConditionTrue, false, corev1.Taint{Key: kubelet.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}, false},
		{"a Node with drover's startup taint is not usable (F-47)", corev1.ConditionTrue, false, corev1.Taint{Key: startupTaint, Effect: corev1.TaintEffectNoSchedule}, false},
		{"a Ready Node with the taint not-ready:NoExecute is usable, because the API server makes every pod tolerate it (F-47)", corev1.ConditionTrue, false, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, true},
		{"a Node with a taint of its group, such as gpu, is usable (F-47)", corev1.ConditionTrue, false, corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: tt.closed}}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tt.ready}}
			if tt.taint.Key != "" {
				n.Spec.Taints = []corev1.Taint{tt.taint}
			}
			if got := UsableNode(n); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
