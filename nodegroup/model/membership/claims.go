package membership

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/persistent"
)

// machineClaims finds the UIDs of Machines by the fields of the Machines that identify a Node.
type machineClaims struct {
	// servers is keyed by server ID, keys by the namespace/name of the Machine, and names by the name that its Node has or will
	// have.
	servers, keys, names persistent.Map[persistent.Names]
}

// nodeClaims finds the names of Nodes by the fields of the Nodes that identify a Machine.
type nodeClaims struct {
	// servers is keyed by server ID, keys by the namespace/name of the Machine, and owners by the UID of the Machine.
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

// linking is the type of persistent.Link and persistent.Unlink.
type linking func(t *persistent.Map[persistent.Names], key, name string)

// change adds a Machine to the maps, or removes it. server is the ID of the server that the Machine names.
func (c *machineClaims) change(m *v1alpha1.Machine, server string, do linking) {
	uid := string(m.UID)
	do(&c.keys, keyOf(m), uid)
	do(&c.names, m.ServerName(), uid)
	do(&c.names, nodeRefName(m), uid)
	do(&c.servers, server, uid)
}

// change adds a Node to the maps, or removes it. server is the ID of the Node's server.
func (c *nodeClaims) change(n *corev1.Node, server string, do linking) {
	do(&c.servers, server, n.Name)
	do(&c.owners, v1alpha1.NodeOwner(n.Labels, n.Annotations), n.Name)
	do(&c.keys, n.Annotations[v1alpha1.AnnotationNodeMachine], n.Name)
}

func nodeRefName(m *v1alpha1.Machine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}
