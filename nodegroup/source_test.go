package nodegroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhichChangesOfANodeAffectAnswersToTheAutoscaler(t *testing.T) {
	tainted := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}
	}
	a := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	for _, tt := range []struct {
		name          string
		before, after *corev1.Node
		want          bool
	}{
		{"a taint that is replaced by one with another key affects answers (F-47)", tainted(a), tainted(corev1.Taint{Key: "b", Effect: a.Effect}), true},
		{"a taint whose effect changes affects answers (F-47)", tainted(a), tainted(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}), true},
		{"a taint whose value changes affects no answer (F-47)", tainted(a), tainted(corev1.Taint{Key: "a", Value: "v", Effect: a.Effect}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := nodeMatters(tt.before, tt.after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
