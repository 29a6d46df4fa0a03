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

func TestMissingNamesWhatANodeLacks(t *testing.T) {
	unavailable := corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule}
	advice := corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectPreferNoSchedule}
	for name, tt := range map[string]struct {
		rules StartRules
		node  *corev1.Node
		want  string
	}{
		"nothing for a Ready Node":              {StartRules{}, withReady(corev1.ConditionTrue, madeAt), ""},
		"the condition Ready":                   {StartRules{}, &corev1.Node{}, "reports no Ready condition"},
		"readiness":                             {StartRules{}, withReady(corev1.ConditionFalse, madeAt), "is not Ready"},
		"a condition of the operator":           {StartRules{Conditions: []corev1.NodeConditionType{"NetworkReady"}}, withReady(corev1.ConditionTrue, madeAt), "condition NetworkReady is not True"},
		"the end of a taint":                    {StartRules{}, withReady(corev1.ConditionTrue, madeAt, unavailable), "taint " + corev1.TaintNodeNetworkUnavailable},
		"nothing for a taint that only advises": {StartRules{}, withReady(corev1.ConditionTrue, madeAt, advice), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(tt.rules.Missing(tt.node), "; ")
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("Missing() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnreachableAfterFiveMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"false for a Ready Node":                         {withReady(corev1.ConditionTrue, madeAt.Add(-time.Hour)), false},
		"false for a Node that was Ready until recently": {withReady(corev1.ConditionUnknown, madeAt.Add(-unreachableAfter+time.Second)), false},
		"true after five minutes":                        {withReady(corev1.ConditionUnknown, madeAt.Add(-unreachableAfter)), true},
		"false for a Node that never reported":           {&corev1.Node{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unreachable(tt.node, madeAt); got != tt.want {
				t.Errorf("Unreachable() = %v, want %v", got, tt.want)
			}
		})
	}
}
