package nodegroup

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// find returns the Machine that a node of a request belongs to: by what the request says, else by what is known of the Node
// that it names; nil for a foreign one (CA-C33, C35).
func (ix *index) find(asked Node) *member {
	n := ix.completed(asked)
	if m := ix.match(n); m != nil {
		return m
	}
	if m := ix.members.get(ix.nodes.get(n.Name).machine); m != nil && !contradicts(m, n.ProviderID) {
		return m
	}
	if n.ProviderID == "" {
		return nil
	}
	for _, name := range ix.nodeClaims.servers.get(nodeServer(n.ProviderID)) {
		if m := ix.members.get(ix.nodes.get(name).machine); m != nil {
			return m
		}
	}
	return nil
}

// named returns the Machine that a placeholder names; nil when it names none, or none (any more) of that group.
func (ix *index) named(p placeholder) *member {
	if p.machine == "" {
		return nil
	}
	m := ix.choose(ix.machineClaims.keys.get(p.namespace()+"/"+p.machine), nodeFacts{})
	if m == nil || ix.groupOf(m) != p.group {
		return nil
	}
	return m
}

// completed adds to the node of a request what only the Node itself says: when it registered, whether it belongs to the
// control plane, and its provider ID and owner label when the request lacks them.
func (ix *index) completed(asked Node) nodeFacts {
	known := ix.known(asked)
	if known == nil {
		return nodeFacts{Node: asked, controlPlane: v1alpha1.ControlPlaneRole(asked.Labels, nil) != ""}
	}
	n := factsOf(known)
	is := n.Node
	n.Node = asked
	n.ProviderID = cmp.Or(asked.ProviderID, is.ProviderID)
	if asked.Labels[v1alpha1.LabelOwnedBy] == "" {
		n.Labels = is.Labels
	}
	return n
}

// known returns the Node of that name, unless it has another server, else the first Node with that server; nil for none.
func (ix *index) known(n Node) *corev1.Node {
	named := ix.nodes.get(n.Name).node
	if n.ProviderID == "" || named != nil && nodeServer(named.Spec.ProviderID) == nodeServer(n.ProviderID) {
		return named
	}
	for _, name := range ix.nodeClaims.servers.get(nodeServer(n.ProviderID)) {
		return ix.nodes.get(name).node
	}
	return nil
}
