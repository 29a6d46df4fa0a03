package membership

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Find returns the Machine that the node of a request belongs to; nil when it belongs to none. It first uses the fields of the
// request, then those of the Node that the request names (CA-C33, C35).
func (ix *Index) Find(asked Node) *Member {
	n := ix.completed(asked)
	if m := ix.match(n); m != nil {
		return m
	}
	if m := ix.members.Get(ix.nodes.Get(n.Name).machine); m != nil && !ix.contradicts(m, n.ProviderID) {
		return m
	}
	if n.ProviderID == "" {
		return nil
	}
	for _, name := range ix.of(nodesByServer, ix.nodeServer(n.ProviderID)) {
		if m := ix.members.Get(ix.nodes.Get(name).machine); m != nil {
			return m
		}
	}
	return nil
}

// Named returns the Machine that a placeholder names. It returns nil when the placeholder names no Machine, or when the
// Machine no longer exists or is in another group.
func (ix *Index) Named(p Placeholder) *Member {
	if p.Machine == "" {
		return nil
	}
	m := ix.choose(ix.of(machinesByKey, p.namespace()+"/"+p.Machine), nodeFacts{})
	if m == nil || ix.GroupOf(m) != p.Group {
		return nil
	}
	return m
}

// completed returns the node of a request with what only the Node object shows: when it registered, and whether it belongs to the
// control plane. When the request lacks the provider ID or the owner, completed takes these from the Node object, too.
func (ix *Index) completed(asked Node) nodeFacts {
	known := ix.known(asked)
	if known == nil {
		return nodeFacts{Node: asked, owner: v1alpha1.NodeOwner(asked.Labels, asked.Annotations), controlPlane: v1alpha1.ControlPlaneRole(asked.Labels, nil) != ""}
	}
	n := factsOf(known)
	asked.ProviderID = cmp.Or(asked.ProviderID, n.ProviderID)
	n.Node = asked
	n.owner = cmp.Or(v1alpha1.NodeOwner(asked.Labels, asked.Annotations), n.owner)
	return n
}

// known returns the Node with the name in the request, unless that Node is on another server. Otherwise it returns the first
// Node on the server in the request, or nil when there is none.
func (ix *Index) known(n Node) *corev1.Node {
	named := ix.nodes.Get(n.Name).node
	if n.ProviderID == "" || named != nil && ix.nodeServer(named.Spec.ProviderID) == ix.nodeServer(n.ProviderID) {
		return named
	}
	for _, name := range ix.of(nodesByServer, ix.nodeServer(n.ProviderID)) {
		return ix.nodes.Get(name).node
	}
	return nil
}
