package model

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// templateNode returns the encoded v1.Node that a new Machine of the group would become, from status.nodeTemplate. It returns
// nil while the template is not known: the autoscaler crashes on a node without content, and loops forever on wrong numbers
// (CA-C97, C98). Equal templates are encoded to the same bytes (CA-C104).
func templateNode(o *membership.Owner) []byte {
	t := o.Template
	if t == nil || t.Allocatable.Cpu().IsZero() || t.Allocatable.Memory().IsZero() {
		return nil
	}
	name := "template-" + o.GetNamespace() + "-" + o.GetName()
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelHostname] = name
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: map[string]string{v1alpha1.AnnotationNodeGroup: o.ID},
		},
		Spec: corev1.NodeSpec{
			ProviderID: membership.Placeholder{Group: o.ID, Template: true}.String(),
			Taints:     t.Taints,
		},
		Status: corev1.NodeStatus{
			Capacity:    t.Capacity,
			Allocatable: t.Allocatable,
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: labels[corev1.LabelOSStable],
				Architecture:    labels[corev1.LabelArchStable],
			},
		},
	}
	raw, err := node.Marshal()
	if err != nil {
		return nil
	}
	return raw
}
