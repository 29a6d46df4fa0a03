package state

import "time"

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
