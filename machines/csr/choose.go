package csr

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Machine is a Machine and what the cloud's inventory has for it.
type Machine struct {
	*v1alpha1.Machine
	// Recorded is the server that spec.providerID names; empty when it names none.
	Recorded cloud.ServerID
	// Server is the server whose owner tag names this Machine, from the cloud's inventory; nil when there is none or the inventory is
	// incomplete.
	Server *cloud.Server
	// Unknown describes why the inventory does not show whether there is a server; empty when the inventory is complete.
	Unknown string
}

// Node is the Node with a Machine's server name.
type Node struct {
	corev1.Node
	// Server is the server that the Node's provider ID names; empty while the Node has no provider ID that names one.
	Server cloud.ServerID
}

func (m *Machine) key() string  { return m.Namespace + "/" + m.Name }
func (m *Machine) paused() bool { return v1alpha1.Paused(m.Annotations) }

// joined reports whether the Machine's status names a Node with the name of the server.
func (m *Machine) joined() bool {
	return m.Status.NodeRef != nil && m.Status.NodeRef.Name == m.ServerName()
}

// serverID returns the Machine's server: the server with the Machine's owner tag, or else, while the inventory is incomplete, the
// server that spec.providerID names. It returns "" when there is neither. It ignores spec.providerID of a paused Machine, because
// drover does not maintain that field.
func (m *Machine) serverID() cloud.ServerID {
	switch {
	case m.Server != nil:
		return m.Server.Key
	case m.Unknown != "" && !m.paused():
		return m.Recorded
	}
	return ""
}

// Contenders holds the Machines that want a node name, and which of them may use it.
type Contenders struct {
	// Holder is the Machine that may use the name; nil when that is undecided.
	Holder *Machine
	// Equal lists Machines that each have a server with the node name. Therefore none of these Machines may use the name.
	Equal []*Machine
	// Squatters lists the other Machines that want the name of the Holder.
	Squatters []*Machine
}

// Choose returns which Machine may use a node name. If several Machines want the name, it belongs to the Machine on whose server
// the Node of that name runs, or else to the only Machine with a server. A Machine without a server does not compete. Two
// Machines that both have a server of that name are equal as long as no Node decides between them. Several Machines may have the
// server of the Node, for example when a cloud lists the IDs of another cloud's servers. In that case the name belongs to the
// Machine that is older than the Node.
func Choose(machines []*Machine, n *Node) Contenders {
	if len(machines) == 1 {
		return Contenders{Holder: machines[0]}
	}
	marked := func(m *Machine) bool { return m.Server != nil }
	agrees := func(m *Machine) bool { return n != nil && n.Server != "" && n.Server == m.serverID() }
	precedes := func(m *Machine) bool { return n != nil && !m.CreationTimestamp.After(n.CreationTimestamp.Time) }
	for _, counts := range []func(*Machine) bool{
		func(m *Machine) bool { return marked(m) && agrees(m) && precedes(m) },
		func(m *Machine) bool { return marked(m) && agrees(m) },
		agrees,
		func(m *Machine) bool { return m.serverID() != "" && (!marked(m) || m.Server.Name == m.ServerName()) },
	} {
		found := slices.DeleteFunc(slices.Clone(machines), func(m *Machine) bool { return !counts(m) })
		switch len(found) {
		case 0:
		case 1:
			return Contenders{Holder: found[0], Squatters: slices.DeleteFunc(slices.Clone(machines), counts)}
		default:
			return Contenders{Equal: found}
		}
	}
	return Contenders{}
}

// contested returns why a Machine may not use the node name; empty when it may.
func (c *Contenders) contested(m *Machine) string {
	switch {
	case c.Holder != nil && c.Holder.UID == m.UID:
		return ""
	case c.Holder != nil:
		return fmt.Sprintf("the node name %s belongs to Machine %s", m.ServerName(), c.Holder.key())
	case len(c.Equal) > 0:
		var all []string
		for _, equal := range c.Equal {
			all = append(all, equal.key())
		}
		return fmt.Sprintf("Machines %s each have a server named %s", strings.Join(all, ", "), m.ServerName())
	}
	return fmt.Sprintf("several Machines want the node name %s and none has a server yet", m.ServerName())
}
