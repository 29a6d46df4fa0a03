package addresses

import (
	"strings"
	"time"
)

// Port is a port that has a Machine's owner tag.
type Port struct {
	ID, NetworkID string
	// ServerID is the server that Neutron has it bound to, as far as a list has shown; empty: none.
	ServerID  string
	Addresses []string
	// Doubtful: the cloud said something that makes us doubt that the port still exists. It is looked up before it is used.
	Doubtful bool
	// Ordered: an order for a server whose outcome is not known may name the port, since the order's answer was lost, or since
	// another process made the port and may have ordered a server on it before it died. No server is ordered on it any more; it
	// is replaced.
	Ordered bool
	// Since is when it was first seen, on our clock. Created is when Neutron says that it was created; zero: it does not say.
	Since, Created time.Time
}

// FloatingIP is a floating IP that has a Machine's owner tag.
type FloatingIP struct {
	ID, Address string
	// PortID is the port that it is on; empty: none.
	PortID string
	// Since is when it was first seen, on our clock. Created is when Neutron says that it was created; zero: it does not say.
	Since, Created time.Time
}

// Place is where a floating IP was seen: on that port, which that server has.
type Place struct{ PortID, ServerID string }

// PortRow is a port as Neutron lists it, as far as it is needed.
type PortRow struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	NetworkID   string `json:"network_id"`
	DeviceID    string `json:"device_id"`
	// DeviceOwner says what kind of thing has the port: only a lookup by ID shows it, no list.
	DeviceOwner string `json:"device_owner"`
	CreatedAt   string `json:"created_at"`
	FixedIPs    []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
}

// FloatingIPRow is a floating IP as Neutron lists it, as far as it is needed.
type FloatingIPRow struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Address     string `json:"floating_ip_address"`
	PortID      string `json:"port_id"`
	CreatedAt   string `json:"created_at"`
}

// Owned returns the port as another process may have left it: a server may have been ordered on it.
func (r *PortRow) Owned() Port {
	p := Port{ID: r.ID, NetworkID: r.NetworkID, ServerID: r.DeviceID, Ordered: true, Created: created(r.CreatedAt)}
	for _, ip := range r.FixedIPs {
		p.Addresses = append(p.Addresses, ip.Address)
	}
	return p
}

// Owned returns the floating IP of the row.
func (r *FloatingIPRow) Owned() FloatingIP {
	return FloatingIP{ID: r.ID, Address: r.Address, PortID: r.PortID, Created: created(r.CreatedAt)}
}

// created returns the time that Neutron says in UTC, with or without a Z at the end; zero when it says none that can be read.
func created(text string) time.Time {
	at, err := time.Parse(time.RFC3339, strings.TrimSuffix(text, "Z")+"Z")
	if err != nil {
		return time.Time{}
	}
	return at
}
