package csr

import (
	"fmt"
	"strings"
)

// Claims is who may use a node name that one or more Machines want.
type Claims struct {
	// Holder is the Machine that the name belongs to; nil when that cannot be said.
	Holder *Machine
	// Equal are the Machines between which nothing decides: each has a server of that name.
	Equal []*Machine
	// Squatters are the Machines that want the name of the Holder.
	Squatters []*Machine
}

// Choose returns who may use a node name. Of several Machines it is the one whose server the Node of that name is, else
// the only one that has a server. A Machine without a server holds back nobody. Two Machines that both have a server of
// that name are equal as long as no Node decides between them. When several have the server of the Node, as with a cloud that
// lists the IDs of another cloud's servers, it is the one that is older than the Node.
func Choose(machines []*Machine, n *Node) Claims {
	if len(machines) == 1 {
		return Claims{Holder: machines[0]}
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
			return Claims{Holder: found[0], Squatters: rest}
		default:
			return Claims{Equal: found}
		}
	}
	return Claims{}
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

// contested returns why a node name does not belong to a Machine; empty when it does.
func (c *Claims) contested(m *Machine) string {
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
