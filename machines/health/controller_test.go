package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestOnlyRelevantChangesOfANodeStartAHealthCheck(t *testing.T) {
	s, _, _ := filled(t)
	later := metav1.NewTime(time.Now().Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a Node's heartbeat starts no check", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = later }, false},
		{"a Node's new image starts no check", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		{"a Node's new taint starts no check", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, false},
		{"a changed Node condition starts a check", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		{"a changed status of a Node's condition Ready starts a check", func(n *corev1.Node) { n.Status.Conditions[5].Status = corev1.ConditionUnknown }, true},
		{"a changed transition time of a Node's condition Ready starts a check even if the status is unchanged", func(n *corev1.Node) { n.Status.Conditions[5].LastTransitionTime = later }, true},
		{"a Node's new zone, which a kubelet may write on its own Node, starts no check (F-94)", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "another" }, false},
		{"a Node's new owner starts a check", func(n *corev1.Node) { n.Labels[v1alpha1.LabelOwnedBy] = "another" }, true},
		{"a Node's replacement by another Node with the same name starts a check", func(n *corev1.Node) { n.UID = "another" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.nodes.List()[0].(*corev1.Node)
			after := before.DeepCopy()
			tt.change(after)
			if got := nodeMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
