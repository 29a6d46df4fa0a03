package membership

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/persistent"
)

// machineClaims find Machines, by UID, by what they say of their Node.
type machineClaims struct {
	// servers are by ID of the server, keys by namespace/name of the Machine, names by name of the Node.
	servers, keys, names persistent.Map[persistent.Names]
}

// nodeClaims find Nodes, by name, by what they say of their Machine.
type nodeClaims struct {
	// servers are by ID of the server, keys by namespace/name of the Machine, owners by UID of the Machine.
	servers, keys, owners persistent.Map[persistent.Names]
}

func (c *machineClaims) seal() {
	c.servers.Seal()
	c.keys.Seal()
	c.names.Seal()
}

func (c *nodeClaims) seal() {
	c.servers.Seal()
	c.keys.Seal()
	c.owners.Seal()
}

// linking is link or unlink.
type linking func(t *persistent.Map[persistent.Names], key, name string)

func (c *machineClaims) change(m *v1alpha1.Machine, do linking) {
	uid := string(m.UID)
	do(&c.keys, keyOf(m), uid)
	do(&c.names, m.ServerName(), uid)
	do(&c.names, nodeRefName(m), uid)
	do(&c.servers, claimedServer(m), uid)
}

func (c *nodeClaims) change(n *corev1.Node, do linking) {
	do(&c.servers, nodeServer(n.Spec.ProviderID), n.Name)
	do(&c.owners, n.Labels[v1alpha1.LabelOwnedBy], n.Name)
	do(&c.keys, n.Annotations[v1alpha1.AnnotationNodeMachine], n.Name)
}

// sameClaims reports whether two versions of a Machine are found by the same, and are chosen alike among several.
func sameClaims(a, b *v1alpha1.Machine) bool {
	return claimedServer(a) == claimedServer(b) && nodeRefName(a) == nodeRefName(b) && a.ServerName() == b.ServerName() &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() && a.CreationTimestamp.Equal(&b.CreationTimestamp)
}

func nodeRefName(m *v1alpha1.Machine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}

// claimedServer returns the ID of the server that a Machine names; empty for none.
func claimedServer(m *v1alpha1.Machine) string {
	if m.Spec.ProviderID == nil {
		return ""
	}
	return providerid.Server(*m.Spec.ProviderID)
}
