package membership

import "github.com/drover-project/drover/machines/api/v1alpha1"

// annotationFake is the annotation that cluster-autoscaler sets on the Node objects that it makes up for instances without
// a node.
const annotationFake = "k8s.io/cluster-autoscaler/fake-node-reason"

// Node is a Node as it is described in a request of the autoscaler.
type Node struct {
	ProviderID, Name    string
	Labels, Annotations map[string]string
}

// Fake reports whether the autoscaler made up the node for an instance that has no node.
func (n Node) Fake() bool {
	_, ok := n.Annotations[annotationFake]
	return ok
}

// MadeUp reports whether the node exists only in the autoscaler, not in Kubernetes.
func (n Node) MadeUp() bool {
	_, isPlaceholder := n.Placeholder()
	return isPlaceholder || n.Fake()
}

// Placeholder parses the node's id as the id of an instance without a node, or of a template node.
func (n Node) Placeholder() (Placeholder, bool) {
	if p, ok := parsePlaceholder(n.ProviderID); ok {
		return p, true
	}
	if p, ok := parsePlaceholder(n.Name); ok {
		return p, true
	}
	if group := n.Annotations[v1alpha1.AnnotationNodeGroup]; group != "" {
		return Placeholder{Group: group, Template: true}, true
	}
	return Placeholder{}, false
}

// String returns the node's name and provider ID for messages.
func (n Node) String() string {
	if n.Name == "" || n.Name == n.ProviderID {
		return n.ProviderID
	}
	if n.ProviderID == "" {
		return n.Name
	}
	return n.Name + " (" + n.ProviderID + ")"
}
