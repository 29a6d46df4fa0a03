package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestOnlyRelevantChangesStartAHealthCheck(t *testing.T) {
	s, _, _ := filled(t)
	r, _ := newPasses(t, s)
	later := metav1.NewTime(time.Now().Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a Node's heartbeat starts no check", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = later }, false},
		{"a Node's new image starts no check", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		{"a Node's new taint starts no check", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, false},
		{"a changed Node condition starts no check when --health-node-conditions does not name the condition", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		{"a changed Node condition starts a check when --health-node-conditions names the condition", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		{"a changed status of a Node's condition Ready starts a check", func(n *corev1.Node) { n.Status.Conditions[5].Status = corev1.ConditionUnknown }, true},
		{"a changed transition time of a Node's condition Ready starts a check even if the status is unchanged", func(n *corev1.Node) { n.Status.Conditions[5].LastTransitionTime = later }, true},
		{"a Node's new zone starts a check", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "another" }, true},
		{"a Node's replacement by another Node with the same name starts a check", func(n *corev1.Node) { n.UID = "another" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.nodes.List()[0].(*corev1.Node)
			after := before.DeepCopy()
			tt.change(after)
			if got := r.nodeMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.Machine)
		want   bool
	}{
		{"a Machine's new address starts no check", func(m *v1alpha1.Machine) { m.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.1"}} }, false},
		{"a changed message in a Machine's condition starts no check", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Message = "another" }, false},
		{"a changed reason of a Machine's condition Ready starts a check", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Reason = "NodeMissing" }, true},
		{"a changed reason of a Machine's condition ServerReady starts a check", func(m *v1alpha1.Machine) { m.Status.Conditions[0].Reason = "ServerWontStart" }, true},
		{"a Machine's new annotation starts a check", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationReplace: "true"} }, true},
		{"a Machine's deletion starts a check", func(m *v1alpha1.Machine) { m.DeletionTimestamp = &later }, true},
		{"the removal of a Machine's reference to its Node starts a check", func(m *v1alpha1.Machine) { m.Status.NodeRef = nil }, true},
		{"a change of status.nodeMarks.started, which records the first start of a Machine's Node, starts a check", func(m *v1alpha1.Machine) { m.Status.NodeMarks.Started = false }, true},
		{"the removal of a Machine's owner reference starts a check", func(m *v1alpha1.Machine) { m.OwnerReferences = nil }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.machines.List()[0].(*v1alpha1.Machine)
			after := before.DeepCopy()
			tt.change(after)
			if got := machineMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
