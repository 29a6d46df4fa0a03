package membership

import corev1 "k8s.io/api/core/v1"

// matchNodes determines the Machine of each Node in u.matching again.
func (u *update) matchNodes() {
	var moved []string
	for name := range u.matching {
		j := u.nodes.Get(name)
		if j.node == nil {
			continue
		}
		var machine string
		if m := u.match(factsOf(j.node)); m != nil {
			machine = string(m.Machine.UID)
		}
		for _, uid := range []string{j.machine, machine} {
			if uid != "" {
				u.joining[uid] = true
			}
		}
		if machine == j.machine {
			continue
		}
		unlink(&u.links[nodesOf], u.edit, j.machine, name)
		link(&u.links[nodesOf], u.edit, machine, name)
		u.nodes.Set(u.edit, name, joined{node: j.node, machine: machine})
		moved = append(moved, u.nodeServer(j.node.Spec.ProviderID))
	}
	for _, server := range moved {
		for _, name := range u.of(nodesByServer, server) {
			if uid := u.nodes.Get(name).machine; uid != "" {
				u.joining[uid] = true
			}
		}
	}
}

// joinMachines determines the Node of each Machine in u.joining again, and stores it in the Machine's member.
func (u *update) joinMachines() {
	for uid := range u.joining {
		m := u.members.Get(uid)
		if m == nil {
			continue
		}
		node := u.nodeOf(m)
		next := m.WithNode(node, u.providerIDOf(uid, node))
		if next.Node == m.Node && next.ProviderID == m.ProviderID {
			continue
		}
		u.put(next)
		u.changedMember(next)
	}
}

// nodeOf chooses one of a Machine's Nodes: the Node with the Machine's name, or else the first by name.
func (u *update) nodeOf(m *Member) *corev1.Node {
	nodes := u.of(nodesOf, string(m.Machine.UID))
	if len(nodes) == 0 {
		return nil
	}
	chosen := nodes[0]
	for _, name := range nodes {
		if name == m.Machine.ServerName() {
			chosen = name
		}
	}
	return u.nodes.Get(chosen).node
}

// providerIDOf returns the provider ID by which the autoscaler knows the Machine's Node; empty when there is none. When the Nodes
// of several Machines have the same provider ID, only the Machine with the lowest UID keeps it. providerIDOf ignores a provider ID
// in the form of a placeholder.
func (u *update) providerIDOf(uid string, node *corev1.Node) string {
	if node == nil || node.Spec.ProviderID == "" {
		return ""
	}
	if _, ours := parsePlaceholder(node.Spec.ProviderID); ours {
		return ""
	}
	for _, name := range u.of(nodesByServer, u.nodeServer(node.Spec.ProviderID)) {
		other := u.nodes.Get(name)
		if other.machine != "" && other.machine < uid {
			return ""
		}
	}
	return node.Spec.ProviderID
}
