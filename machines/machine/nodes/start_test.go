package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withReady returns a Node with the given taints. Its condition Ready has had the given status since the given time.
func withReady(status corev1.ConditionStatus, since time.Time, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since),
		}}},
	}
}

func TestWhatANodeLacksBeforeItsStartupTaintIsRemoved(t *testing.T) {
	unavailable := corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}
	advice := corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectPreferNoSchedule}
	for name, tt := range map[string]struct {
		rules StartRules
		node  *corev1.Node
		want  string
	}{
		"nothing is missing when the Node is Ready":                                                 {StartRules{}, withReady(corev1.ConditionTrue, madeAt), ""},
		"condition Ready counts as missing when the Node does not report it":                        {StartRules{}, &corev1.Node{}, "reports no Ready condition"},
		"condition Ready counts as missing when it is False":                                        {StartRules{}, withReady(corev1.ConditionFalse, madeAt), "is not Ready"},
		"a condition that the operator requires counts as missing when the Node does not report it": {StartRules{Conditions: []corev1.NodeConditionType{"NetworkReady"}}, withReady(corev1.ConditionTrue, madeAt), "condition NetworkReady is not True"},
		"the Node is not complete while it still has the taint network-unavailable":                 {StartRules{}, withReady(corev1.ConditionTrue, madeAt, unavailable), "taint " + corev1.TaintNodeNetworkUnavailable},
		"a startup taint by its name must be gone (F-129)":                                          {StartRules{}, withReady(corev1.ConditionTrue, madeAt, corev1.Taint{Key: "ignore-taint.cluster-autoscaler.kubernetes.io/x", Effect: corev1.TaintEffectNoExecute}), "taint ignore-taint.cluster-autoscaler.kubernetes.io/x"},
		"nothing is missing when the taint network-unavailable has the effect PreferNoSchedule":     {StartRules{}, withReady(corev1.ConditionTrue, madeAt, advice), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(tt.rules.Missing(tt.node), "; ")
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("Missing() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestANodeIsUnreachableWhenItsKubeletHasNotReportedForFiveMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"a Ready Node is not unreachable":                                                               {withReady(corev1.ConditionTrue, madeAt.Add(-time.Hour)), false},
		"a Node whose kubelet reported less than five minutes ago is not unreachable":                   {withReady(corev1.ConditionUnknown, madeAt.Add(-unreachableAfter+time.Second)), false},
		"a Node is unreachable five minutes after its kubelet reported last":                            {withReady(corev1.ConditionUnknown, madeAt.Add(-unreachableAfter)), true},
		"a Node whose kubelet has reported for an hour that it is not Ready is not unreachable (F-139)": {withReady(corev1.ConditionFalse, madeAt.Add(-time.Hour)), false},
		"a Node that never reported its condition Ready is not unreachable":                             {&corev1.Node{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unreachable(tt.node, madeAt); got != tt.want {
				t.Errorf("Unreachable() = %v, want %v", got, tt.want)
			}
		})
	}
}
