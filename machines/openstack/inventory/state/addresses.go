package state

import (
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Addresses holds the ports and floating IPs of a project that have an owner tag of this cluster.
type Addresses struct {
	ports    map[types.UID]map[int]Port
	floating map[types.UID]FloatingIP
	// untagged has, by ID, the floating IPs that were seen on a server and have no owner tag of this cluster.
	untagged map[string]place
	// trunked has, by the ID of each server, the addresses of the subports of its ports.
	trunked map[string][]string
	// duplicates has, by ID, each port and floating IP that has the same owner tag as another known port or floating IP.
	duplicates map[string]duplicate
}

// newAddresses returns an empty Store.
func newAddresses() *Addresses {
	return &Addresses{ports: map[types.UID]map[int]Port{}, floating: map[types.UID]FloatingIP{}, untagged: map[string]place{}, duplicates: map[string]duplicate{}}
}

// setPort stores a port. When another port with the same tag is known already, SetPort replaces that port only in two cases: the
// known port is doubtful (see [Port].Doubtful), or it is bound to no server and the new port is bound to one. Two ports can have
// the same tag when, for example, a create call of the previous leader was carried out late. drover deletes the unused port when
// the Machine is gone.
func (s *Addresses) setPort(tag Tag, port Port, now time.Time) {
	port.Since = now
	switch old, ok := s.ports[tag.Machine][tag.N]; {
	case ok && old.ID == port.ID:
		port.Since, port.NamedByCreate = old.Since, old.NamedByCreate && port.NamedByCreate
	case ok && !old.Doubtful && (old.ServerID != "" || port.ServerID == ""):
		return
	}
	if s.ports[tag.Machine] == nil {
		s.ports[tag.Machine] = map[int]Port{}
	}
	s.ports[tag.Machine][tag.N] = port
}

// setFloatingIP stores a floating IP.
func (s *Addresses) setFloatingIP(tag Tag, ip FloatingIP, now time.Time) {
	ip.Since = now
	if old, ok := s.floating[tag.Machine]; ok && old.ID == ip.ID {
		ip.Since = old.Since
	}
	s.floating[tag.Machine] = ip
}

// ForgetPort removes the n-th port of a Machine if it still has the given ID. If a list has meanwhile shown another port with the
// same owner tag, that port stays.
func (s *Addresses) ForgetPort(machine types.UID, n int, id string) {
	if s.ports[machine][n].ID != id {
		return
	}
	delete(s.ports[machine], n)
	if len(s.ports[machine]) == 0 {
		delete(s.ports, machine)
	}
}

// ForgetFloatingIP removes the floating IP of a Machine.
func (s *Addresses) ForgetFloatingIP(machine types.UID) { delete(s.floating, machine) }

// forget removes a port or floating IP that was deleted, whatever Machine it belonged to.
func (s *Addresses) forget(id string) {
	for machine, all := range s.ports {
		for n := range all {
			s.ForgetPort(machine, n, id)
		}
	}
	for machine, ip := range s.floating {
		if ip.ID == id {
			s.ForgetFloatingIP(machine)
		}
	}
	delete(s.duplicates, id)
}

// has reports whether a port or a floating IP of the Machine is known.
func (s *Addresses) has(machine types.UID) bool {
	_, hasIP := s.floating[machine]
	return hasIP || len(s.ports[machine]) > 0
}

// Ports returns a copy of the Machine's ports, by the number in their owner tags.
func (s *Addresses) Ports(machine types.UID) map[int]Port {
	out := make(map[int]Port, len(s.ports[machine]))
	maps.Copy(out, s.ports[machine])
	return out
}

// portIDs returns the IDs of the Machine's ports in the order of their numbers.
func (s *Addresses) portIDs(machine types.UID) (ids []string) {
	for _, n := range slices.Sorted(maps.Keys(s.ports[machine])) {
		ids = append(ids, s.ports[machine][n].ID)
	}
	return ids
}

// FloatingIP returns the Machine's floating IP, and reports whether there is one.
func (s *Addresses) FloatingIP(machine types.UID) (FloatingIP, bool) {
	ip, ok := s.floating[machine]
	return ip, ok
}

// internal returns the addresses of the Machine's ports, and those of the subports of all ports of the server.
func (s *Addresses) internal(machine types.UID, serverID string) []string {
	all := slices.Clone(s.trunked[serverID])
	for _, port := range s.ports[machine] {
		all = append(all, port.Addresses...)
	}
	return all
}

// allPorts returns the Machines with ports, each with its ports, unsorted.
func (s *Addresses) allPorts() iter.Seq2[types.UID, map[int]Port] { return maps.All(s.ports) }

// allFloatingIPs returns the Machines with a floating IP, each with its floating IP, unsorted.
func (s *Addresses) allFloatingIPs() iter.Seq2[types.UID, FloatingIP] { return maps.All(s.floating) }

// DoubtPorts marks the Machine's ports as doubtful: drover looks up each of them before it uses the port again.
func (s *Addresses) DoubtPorts(machine types.UID) {
	s.change(machine, func(p *Port) { p.Doubtful = true })
}

// setNamedByCreate marks the Machine's ports as ports that a server create with an unknown outcome may name.
func (s *Addresses) setNamedByCreate(machine types.UID) {
	s.change(machine, func(p *Port) { p.NamedByCreate = true })
}

// bind records the bindings of the Machine's ports; servers maps each port ID to the server of the port. It returns the IDs of
// the ports that are not bound to serverID, in the order of their numbers.
func (s *Addresses) bind(machine types.UID, servers map[string]string, serverID string) (others []string) {
	s.change(machine, func(p *Port) { p.ServerID = servers[p.ID] })
	for _, n := range slices.Sorted(maps.Keys(s.ports[machine])) {
		if port := s.ports[machine][n]; port.ServerID != serverID {
			others = append(others, port.ID)
		}
	}
	return others
}

func (s *Addresses) change(machine types.UID, to func(*Port)) {
	for n, port := range s.ports[machine] {
		to(&port)
		s.ports[machine][n] = port
	}
}
