package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestARoundFollowsEachChangeThatMatters(t *testing.T) {
	s, _, _ := filled(t)
	r, _ := newPasses(t, s)
	later := metav1.NewTime(time.Now().Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = later }, false},
		{"an image", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }, false},
		{"another taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, false},
		{"a condition that is not listed", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		{"a listed condition", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		{"Ready", func(n *corev1.Node) { n.Status.Conditions[5].Status = corev1.ConditionUnknown }, true},
		{"Ready, false and true again", func(n *corev1.Node) { n.Status.Conditions[5].LastTransitionTime = later }, true},
		{"another zone", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "another" }, true},
		{"another Node of its name", func(n *corev1.Node) { n.UID = "another" }, true},
	} {
		t.Run("of a Node: "+tt.name, func(t *testing.T) {
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
		{"an address", func(m *v1alpha1.Machine) { m.Status.Addresses = []corev1.NodeAddress{{Address: "10.0.0.1"}} }, false},
		{"a message", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Message = "another" }, false},
		{"the reason of Ready", func(m *v1alpha1.Machine) { m.Status.Conditions[2].Reason = "NodeMissing" }, true},
		{"the reason of ServerReady", func(m *v1alpha1.Machine) { m.Status.Conditions[0].Reason = "ServerWontStart" }, true},
		{"an annotation", func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationReplace: "true"} }, true},
		{"its deletion", func(m *v1alpha1.Machine) { m.DeletionTimestamp = &later }, true},
		{"its Node", func(m *v1alpha1.Machine) { m.Status.NodeRef = nil }, true},
		{"its first start", func(m *v1alpha1.Machine) { m.Status.NodeMarks.Started = false }, true},
		{"its owner", func(m *v1alpha1.Machine) { m.OwnerReferences = nil }, true},
	} {
		t.Run("of a Machine: "+tt.name, func(t *testing.T) {
			before := s.machines.List()[0].(*v1alpha1.Machine)
			after := before.DeepCopy()
			tt.change(after)
			if got := machineMatters(before, after); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
