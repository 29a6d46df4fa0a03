package state

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Port is a port with a Machine's owner tag.
type Port struct {
	ID, NetworkID string
	// ServerID is the server to which the port was bound when Neutron last returned the port; empty when it was unbound.
	ServerID  string
	Addresses []string
	// Doubtful is true when an answer of the cloud suggests that the port does not exist any more. drover looks the port up
	// before it uses the port.
	Doubtful bool
	// NamedByCreate is true when a server create with an unknown outcome may name the port: the answer to the create was lost, or
	// another process created the port and may have created a server on it before that process ended. drover uses the port for no
	// other server; it replaces the port.
	NamedByCreate bool
	// Open is true when port security is off for the port, so that no security group applies.
	Open bool
	// Since is when drover first saw the port, on drover's clock.
	Since time.Time
}

// FloatingIP is a floating IP with a Machine's owner tag.
type FloatingIP struct {
	ID, Address string
	// PortID is the port to which the floating IP is attached; empty when it is attached to none.
	PortID string
	// Since is when drover first saw the floating IP, on drover's clock.
	Since time.Time
}

// place is where a floating IP was last seen: the port that it was attached to, and the server of that port.
type place struct{ PortID, ServerID string }

// PortRow holds those fields of a port in Neutron's lists that drover uses.
type PortRow struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	NetworkID   string `json:"network_id"`
	DeviceID    string `json:"device_id"`
	// DeviceOwner is the kind of device that uses the port. It is set only by a look-up by ID, not by a list.
	DeviceOwner string `json:"device_owner"`
	// PortSecurity is nil in a cloud without Neutron's extension port-security.
	PortSecurity *bool `json:"port_security_enabled"`
	FixedIPs     []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
	// Trunk names the subports of a port that is the parent of a trunk. A cloud without Neutron's extension trunk-details does not show it.
	Trunk struct {
		Subports []struct {
			ID string `json:"port_id"`
		} `json:"sub_ports"`
	} `json:"trunk_details"`
}

// addresses returns the port's fixed addresses.
func (r *PortRow) addresses() (all []string) {
	for _, ip := range r.FixedIPs {
		all = append(all, ip.Address)
	}
	return all
}

// FloatingIPRow holds the fields of a floating IP in Neutron's lists that drover uses.
type FloatingIPRow struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Address     string `json:"floating_ip_address"`
	PortID      string `json:"port_id"`
}

// Owned converts the row into a Port. It sets NamedByCreate, because another process may have sent a server create that names the
// port.
func (r *PortRow) Owned() Port {
	return Port{
		ID: r.ID, NetworkID: r.NetworkID, ServerID: r.DeviceID, NamedByCreate: true,
		Addresses: r.addresses(), Open: r.PortSecurity != nil && !*r.PortSecurity,
	}
}

// Owned converts the row into a FloatingIP.
func (r *FloatingIPRow) Owned() FloatingIP {
	return FloatingIP{ID: r.ID, Address: r.Address, PortID: r.PortID}
}

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

func newAddresses() *Addresses {
	return &Addresses{ports: map[types.UID]map[int]Port{}, floating: map[types.UID]FloatingIP{}}
}

// setPort stores a port. When another port with the same tag is known already, setPort replaces that port only in two cases: the
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
func (s *Addresses) Ports(machine types.UID) map[int]Port { return maps.Clone(s.ports[machine]) }

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

// AddressLists holds complete lists of the ports and floating IPs of a project.
type AddressLists struct {
	Ports       []PortRow
	FloatingIPs []FloatingIPRow
}

// doubtUnlisted handles ports and floating IPs that were known before the given time and are missing from the lists. A missing
// port of a registered Machine becomes doubtful, because absence does not prove that the port is gone: drover looks the port up
// before it uses the port again. Missing ports and floating IPs of other Machines are removed.
func (s *Addresses) doubtUnlisted(l AddressLists, before time.Time, isRegistered func(types.UID) bool) {
	listed := make(map[string]bool, len(l.Ports)+len(l.FloatingIPs))
	for i := range l.Ports {
		listed[l.Ports[i].ID] = true
	}
	for i := range l.FloatingIPs {
		listed[l.FloatingIPs[i].ID] = true
	}
	missing := func(id string, since time.Time) bool { return !listed[id] && since.Before(before) }
	for machine, all := range s.ports {
		for n, port := range all {
			switch {
			case !missing(port.ID, port.Since):
			case isRegistered(machine):
				port.Doubtful = true
				all[n] = port
			default:
				s.ForgetPort(machine, n, port.ID)
			}
		}
	}
	for machine, ip := range s.floating {
		if missing(ip.ID, ip.Since) && !isRegistered(machine) {
			delete(s.floating, machine)
		}
	}
}

// duplicate is a port or floating IP whose owner tag is also on another port or floating IP that drover already knew. It exists
// when a create of the previous leader was carried out late. Nothing uses it. drover deletes it when its Machine is gone.
type duplicate struct {
	tag Tag
	// on is the server to which the port is bound, or the port to which the floating IP is attached; empty when there is none.
	on string
}

// see records what the lists show besides the ports and floating IPs in use: duplicates; the last place of each floating IP without an
// owner tag of this cluster, which stays recorded when the floating IP is detached, for example because its server is deleted; and the
// addresses of the subports of each port that is bound to a server, because the subports themselves name no server.
func (s *Addresses) see(l AddressLists, cluster Cluster) {
	ports := make(map[string]*PortRow, len(l.Ports))
	for i := range l.Ports {
		ports[l.Ports[i].ID] = &l.Ports[i]
	}
	before := s.untagged
	s.duplicates, s.untagged, s.trunked = map[string]duplicate{}, map[string]place{}, map[string][]string{}
	for _, row := range ports {
		if tag, ours := cluster.Read(PortKind, row.Description); ours && s.ports[tag.Machine][tag.N].ID != row.ID {
			s.duplicates[row.ID] = duplicate{tag: tag, on: row.DeviceID}
		}
		for _, sub := range row.Trunk.Subports {
			if sub := ports[sub.ID]; sub != nil && row.DeviceID != "" {
				s.trunked[row.DeviceID] = append(s.trunked[row.DeviceID], sub.addresses()...)
			}
		}
	}
	for i := range l.FloatingIPs {
		row := &l.FloatingIPs[i]
		tag, ours := cluster.Read(FloatingIPKind, row.Description)
		at := place{PortID: row.PortID}
		if port := ports[row.PortID]; port != nil {
			at.ServerID = port.DeviceID
		}
		if row.PortID == "" {
			at = before[row.ID]
		}
		switch {
		case !ours && at.ServerID != "":
			s.untagged[row.ID] = at
		case ours && s.floating[tag.Machine].ID != row.ID:
			s.duplicates[row.ID] = duplicate{tag: tag, on: row.PortID}
		}
	}
}
