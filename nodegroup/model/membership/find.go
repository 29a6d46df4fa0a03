package membership

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Find returns the Machine that a node of a request belongs to; nil for a foreign one. It looks by the fields of the request
// first, then by those of the Node that the request names (CA-C33, C35).
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
	for _, name := range ix.nodeClaims.servers.Get(ix.nodeServer(n.ProviderID)) {
		if m := ix.members.Get(ix.nodes.Get(name).machine); m != nil {
			return m
		}
	}
	return nil
}

// Named returns the Machine that a placeholder names; nil when it names none, or the Machine is gone or in another group.
func (ix *Index) Named(p Placeholder) *Member {
	if p.Machine == "" {
		return nil
	}
	m := ix.choose(ix.machineClaims.keys.Get(p.namespace()+"/"+p.Machine), nodeFacts{})
	if m == nil || ix.GroupOf(m) != p.Group {
		return nil
	}
	return m
}

// completed adds to the node of a request the fields that only the Node has: when it registered, whether it belongs to the
// control plane, and its provider ID and owner label when the request lacks them.
func (ix *Index) completed(asked Node) nodeFacts {
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

// known returns the Node of that name unless it is on another server, else the first Node on that server; nil for none.
func (ix *Index) known(n Node) *corev1.Node {
	named := ix.nodes.Get(n.Name).node
	if n.ProviderID == "" || named != nil && ix.nodeServer(named.Spec.ProviderID) == ix.nodeServer(n.ProviderID) {
		return named
	}
	for _, name := range ix.nodeClaims.servers.Get(ix.nodeServer(n.ProviderID)) {
		return ix.nodes.Get(name).node
	}
	return nil
}
