package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// controlPlaneRoles are the keys of the labels and taints of control plane Nodes. Kubernetes used the second key before 1.24.
var controlPlaneRoles = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// ControlPlaneRole returns a text that names the label or taint that makes a Node part of the control plane. It returns "" when the Node
// has no such label or taint.
func ControlPlaneRole(labels map[string]string, taints []corev1.Taint) string {
	for _, key := range controlPlaneRoles {
		if _, there := labels[key]; there {
			return "the label " + key
		}
		if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key }) {
			return "the taint " + key
		}
	}
	return ""
}

// NodeReady returns the Node's condition Ready, or a zero condition when the Node reports none.
func NodeReady(n *corev1.Node) corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return n.Status.Conditions[i]
		}
	}
	return corev1.NodeCondition{}
}
