package state

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Port is a port of the project: the fields of a port in Neutron's lists that drover uses and, if the port has a Machine's owner tag, what
// drover knows besides.
type Port struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	NetworkID   string `json:"network_id"`
	// DeviceID is the server to which the port was bound when Neutron last returned the port; empty when it was unbound.
	DeviceID string `json:"device_id"`
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

	// Doubtful is true when an answer of the cloud suggests that the port does not exist any more. drover looks the port up
	// before it uses the port.
	Doubtful bool `json:"-"`
	// NamedByCreate is true when a server create with an unknown outcome may name the port: the answer to the create was lost, or
	// another process created the port and may have created a server on it before that process ended. drover uses the port for no
	// other server; it replaces the port.
	NamedByCreate bool `json:"-"`
	// Since is when drover first saw the port, on drover's clock.
	Since time.Time `json:"-"`
}

// Open reports whether port security is off for the port, so that no security group applies.
func (p Port) Open() bool { return p.PortSecurity != nil && !*p.PortSecurity }

// addresses returns the port's fixed addresses.
func (p Port) addresses() (all []string) {
	for _, ip := range p.FixedIPs {
		all = append(all, ip.Address)
	}
	return all
}

// FloatingIP is a floating IP of the project, with the fields in Neutron's lists that drover uses.
type FloatingIP struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Address     string `json:"floating_ip_address"`
	// PortID is the port to which the floating IP is attached; empty when it is attached to none.
	PortID string `json:"port_id"`
	// Since is when drover first saw the floating IP, on drover's clock, if it has a Machine's owner tag.
	Since time.Time `json:"-"`
}

// place is where a floating IP was last seen: the port that it was attached to, and the server of that port.
type place struct{ PortID, ServerID string }

// Addresses holds the ports and floating IPs of a project that have an owner tag of this cluster.
type Addresses struct {
	ports    map[types.UID]map[int]Port
	floating map[types.UID]FloatingIP
	// untagged has, by ID, the floating IPs that were seen on a server and have no owner tag of this cluster.
	untagged map[string]place
	// trunked has, by the ID of each server, the addresses of the subports of its ports.
	trunked map[string][]string
	// duplicates has, by ID, each port and floating IP whose owner tag is also on another one that drover already knew. It exists when a
	// create of the previous leader was carried out late. Nothing uses it. drover deletes it when its Machine is gone. UsedBy is the server
	// to which the port is bound, or the port to which the floating IP is attached.
	duplicates map[string]cloud.Resource
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
	case ok && !old.Doubtful && (old.DeviceID != "" || port.DeviceID == ""):
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

// idOf returns the ID of the port or floating IP that drover uses for an owner tag; empty when there is none.
func (s *Addresses) idOf(tag Tag) string {
	if tag.Kind == cloud.ResourcePort {
		return s.ports[tag.Machine][tag.N].ID
	}
	return s.floating[tag.Machine].ID
}

// Forget removes the port or floating IP with an owner tag if it still has the given ID. If a list has meanwhile shown another one with
// the same owner tag, that one stays.
func (s *Addresses) Forget(tag Tag, id string) {
	switch {
	case s.idOf(tag) != id:
	case tag.Kind == cloud.ResourceFloatingIP:
		delete(s.floating, tag.Machine)
	default:
		delete(s.ports[tag.Machine], tag.N)
		if len(s.ports[tag.Machine]) == 0 {
			delete(s.ports, tag.Machine)
		}
	}
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

// internal returns the addresses of the Machine's ports, and those of the subports of all ports of the server.
func (s *Addresses) internal(machine types.UID, serverID string) []string {
	all := slices.Clone(s.trunked[serverID])
	for _, port := range s.ports[machine] {
		all = append(all, port.addresses()...)
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

func (s *Addresses) change(machine types.UID, to func(*Port)) {
	for n, port := range s.ports[machine] {
		to(&port)
		s.ports[machine][n] = port
	}
}

// AddressLists holds complete lists of the ports and floating IPs of a project.
type AddressLists struct {
	Ports       []Port
	FloatingIPs []FloatingIP
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
				s.Forget(Tag{Kind: cloud.ResourcePort, Machine: machine, N: n}, port.ID)
			}
		}
	}
	for machine, ip := range s.floating {
		if missing(ip.ID, ip.Since) && !isRegistered(machine) {
			delete(s.floating, machine)
		}
	}
}

// see records what the lists show besides the ports and floating IPs in use: duplicates; the last place of each floating IP without an
// owner tag of this cluster, which stays recorded when the floating IP is detached, for example because its server is deleted; and the
// addresses of the subports of each port that is bound to a server, because the subports themselves name no server.
func (s *Addresses) see(l AddressLists, cluster Cluster) {
	ports := make(map[string]*Port, len(l.Ports))
	for i := range l.Ports {
		ports[l.Ports[i].ID] = &l.Ports[i]
	}
	before := s.untagged
	s.duplicates, s.untagged, s.trunked = map[string]cloud.Resource{}, map[string]place{}, map[string][]string{}
	for _, row := range ports {
		if tag, ours := cluster.Read(cloud.ResourcePort, row.Description); ours && s.idOf(tag) != row.ID {
			s.duplicates[row.ID] = cloud.Resource{Kind: tag.Kind, ID: row.ID, Machine: tag.Machine, UsedBy: row.DeviceID}
		}
		for _, sub := range row.Trunk.Subports {
			if sub := ports[sub.ID]; sub != nil && row.DeviceID != "" {
				s.trunked[row.DeviceID] = append(s.trunked[row.DeviceID], sub.addresses()...)
			}
		}
	}
	for i := range l.FloatingIPs {
		row := &l.FloatingIPs[i]
		tag, ours := cluster.Read(cloud.ResourceFloatingIP, row.Description)
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
		case ours && s.idOf(tag) != row.ID:
			s.duplicates[row.ID] = cloud.Resource{Kind: tag.Kind, ID: row.ID, Machine: tag.Machine, UsedBy: row.PortID}
		}
	}
}
