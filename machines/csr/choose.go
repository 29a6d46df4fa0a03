package csr

import (
	"fmt"
	"strings"
)

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
	precedes := func(m *Machine) bool { return n != nil && !m.Created.After(n.Created) }
	for _, counts := range []func(*Machine) bool{
		func(m *Machine) bool { return marked(m) && agrees(m) && precedes(m) },
		func(m *Machine) bool { return marked(m) && agrees(m) },
		agrees,
		func(m *Machine) bool { return m.serverID() != "" && (!marked(m) || m.Server.Name == m.ServerName) },
	} {
		found, rest := split(machines, counts)
		switch len(found) {
		case 0:
		case 1:
			return Contenders{Holder: found[0], Squatters: rest}
		default:
			return Contenders{Equal: found}
		}
	}
	return Contenders{}
}

func split(machines []*Machine, counts func(*Machine) bool) (found, rest []*Machine) {
	for _, m := range machines {
		if counts(m) {
			found = append(found, m)
		} else {
			rest = append(rest, m)
		}
	}
	return found, rest
}

// contested returns why a Machine may not use the node name; empty when it may.
func (c *Contenders) contested(m *Machine) string {
	switch {
	case c.Holder != nil && c.Holder.UID == m.UID:
		return ""
	case c.Holder != nil:
		return fmt.Sprintf("the node name %s belongs to Machine %s", m.ServerName, c.Holder.Key)
	case len(c.Equal) > 0:
		return fmt.Sprintf("Machines %s each have a server named %s", keys(c.Equal), m.ServerName)
	}
	return fmt.Sprintf("several Machines want the node name %s and none has a server yet", m.ServerName)
}

// keys returns the Machines as a list for messages.
func keys(machines []*Machine) string {
	texts := make([]string, len(machines))
	for i, m := range machines {
		texts[i] = m.Key.String()
	}
	return strings.Join(texts, ", ")
}
