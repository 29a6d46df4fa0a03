package inventory

import (
	"context"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/client"
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
	// since is when it was first seen, on our clock.
	since time.Time
}

// FloatingIP is a floating IP that has a Machine's owner tag.
type FloatingIP struct {
	ID, Address string
	// PortID is the port that it is on; empty: none.
	PortID string
	// since is when it was first seen, on our clock.
	since time.Time
}

// seenIP is where a floating IP without an owner tag of this cluster was last seen: the port, and the server that has it.
type seenIP struct{ portID, serverID string }

// PortRow is a port as Neutron lists it, as far as it is needed.
type PortRow struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	NetworkID   string `json:"network_id"`
	DeviceID    string `json:"device_id"`
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
}

// owned returns the port as another process may have left it: a server may have been ordered on it.
func (r *PortRow) owned() Port {
	p := Port{ID: r.ID, NetworkID: r.NetworkID, ServerID: r.DeviceID, Ordered: true}
	for _, ip := range r.FixedIPs {
		p.Addresses = append(p.Addresses, ip.Address)
	}
	return p
}

// Owned returns the floating IP of the row.
func (r *FloatingIPRow) Owned() FloatingIP {
	return FloatingIP{ID: r.ID, Address: r.Address, PortID: r.PortID}
}

// portFields are those of PortRow.
var portFields = []string{"id", "description", "network_id", "fixed_ips", "device_id"}

// PortListing returns the listing of the ports that match a query.
func PortListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing ports"}, Path: "ports", Field: "ports", Query: query,
	}
}

// FloatingIPListing returns the listing of the floating IPs that match a query.
func FloatingIPListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing floating IPs"}, Path: "floatingips", Field: "floatingips", Query: query,
	}
}

// listOwned lists all ports and floating IPs of the project and stores those with an owner tag of our cluster: at the start, so that
// finding what was made before a restart costs no call per Machine, and later for the collector. What was known and is not listed
// is doubted.
func (p *Project) listOwned(ctx context.Context, s *client.Session, started time.Time) error {
	id, err := s.Scope(ctx)
	if err != nil {
		return err
	}
	ports, err := client.List[PortRow](ctx, s, PortListing(url.Values{
		"project_id": {id.ProjectID}, "fields": portFields,
	}))
	if err != nil {
		return err
	}
	ips, err := client.List[FloatingIPRow](ctx, s, FloatingIPListing(url.Values{
		"project_id": {id.ProjectID}, "fields": {"id", "description", "floating_ip_address", "port_id"},
	}))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubtUnlisted(ports, ips, started)
	p.listedOwned = started
	servers := make(map[string]string, len(ports))
	for i := range ports {
		servers[ports[i].ID] = ports[i].DeviceID
		if m, ok := p.owners.tag(PortKind, ports[i].Description); ok {
			p.setPort(m, ports[i].owned())
		}
	}
	for i := range ips {
		if m, ok := p.owners.tag(FloatingIPKind, ips[i].Description); ok {
			p.setFloatingIP(m, ips[i].Owned())
		}
	}
	p.seeIPs(ips, servers)
	return nil
}

// seeIPs stores on which server a list has shown each floating IP without an owner tag of this cluster. servers are the IDs of the
// servers by the IDs of their ports. A floating IP that was taken off its server, as when that is deleted, keeps the server that it
// was on. The caller holds the lock.
func (p *Project) seeIPs(ips []FloatingIPRow, servers map[string]string) {
	before := p.seenIPs
	p.seenIPs = map[string]seenIP{}
	for i := range ips {
		ip := seenIP{portID: ips[i].PortID, serverID: servers[ips[i].PortID]}
		if ips[i].PortID == "" {
			ip = before[ips[i].ID]
		}
		if _, ours := p.owners.tag(FloatingIPKind, ips[i].Description); !ours && ip.serverID != "" {
			p.seenIPs[ips[i].ID] = ip
		}
	}
}

// doubtUnlisted handles ports and floating IPs that are known and that a list lacks. Absence is no proof: a port of a Machine that
// exists is looked up before it is used again. What belongs to no known Machine is forgotten. The caller holds the lock.
func (p *Project) doubtUnlisted(ports []PortRow, ips []FloatingIPRow, started time.Time) {
	there := make(map[string]bool, len(ports)+len(ips))
	for i := range ports {
		there[ports[i].ID] = true
	}
	for i := range ips {
		there[ips[i].ID] = true
	}
	missing := func(id string, since time.Time) bool { return !there[id] && started.Sub(since) > SettleTime }
	for machine, all := range p.ports {
		for n, port := range all {
			switch {
			case !missing(port.ID, port.since):
			case p.knows(machine):
				port.Doubtful = true
				all[n] = port
			default:
				p.dropPort(machine, n)
			}
		}
	}
	for machine, ip := range p.floating {
		if missing(ip.ID, ip.since) && !p.knows(machine) {
			delete(p.floating, machine)
		}
	}
}

// dropPort forgets a port. The caller holds the lock.
func (p *Project) dropPort(machine types.UID, n int) {
	delete(p.ports[machine], n)
	if len(p.ports[machine]) == 0 {
		delete(p.ports, machine)
	}
}

// setPort stores a port. Of two with the same tag, as when a create of the previous leader arrives late, the one that is known
// stays, unless only the other one is bound to a server; the other is collected when the Machine is gone. A port that is found
// while a create of this process for it is open was made by that create. The caller holds the lock.
func (p *Project) setPort(tag OwnerTag, port Port) {
	if _, own := p.attempts[tag]; own {
		port.Ordered = false
	}
	delete(p.attempts, tag)
	port.since = p.clock.Now()
	switch old, ok := p.ports[tag.Machine][tag.N]; {
	case ok && old.ID == port.ID:
		port.since, port.Ordered = old.since, old.Ordered && port.Ordered
	case ok && !old.Doubtful && (old.ServerID != "" || port.ServerID == ""):
		return
	}
	if p.ports[tag.Machine] == nil {
		p.ports[tag.Machine] = map[int]Port{}
	}
	p.ports[tag.Machine][tag.N] = port
}

// setFloatingIP stores a floating IP. The caller holds the lock.
func (p *Project) setFloatingIP(tag OwnerTag, ip FloatingIP) {
	ip.since = p.clock.Now()
	if old, ok := p.floating[tag.Machine]; ok && old.ID == ip.ID {
		ip.since = old.since
	}
	p.floating[tag.Machine] = ip
	delete(p.attempts, tag)
}

// AddPort adds a port that this process just made. No order for a server names it yet.
func (p *Project) AddPort(tag OwnerTag, row *PortRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	port := row.owned()
	port.Ordered = false
	p.setPort(tag, port)
}

// FoundPort adds a port that was found by its owner tag.
func (p *Project) FoundPort(tag OwnerTag, row *PortRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setPort(tag, row.owned())
}

// FoundUnbound adds a port that was just looked up. The error is Transient when the port is bound to a server that is not known to
// be gone, which InDoubt returns then.
func (p *Project) FoundUnbound(tag OwnerTag, row *PortRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setPort(tag, row.owned())
	if k := p.servers.byID[row.DeviceID]; row.DeviceID == "" || k != nil && k.gone {
		return nil
	}
	return unsettled("port %s is bound to server %s already; it is looked up", row.ID, row.DeviceID)
}

// AddFloatingIP adds a floating IP that was made, found by its owner tag, or put on another port.
func (p *Project) AddFloatingIP(tag OwnerTag, ip FloatingIP) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setFloatingIP(tag, ip)
}

// Owned returns how many ports of a Machine are known, and reports whether a floating IP of it is known.
func (p *Project) Owned(machine types.UID) (ports int, floatingIP bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, floatingIP = p.floating[machine]
	return len(p.ports[machine]), floatingIP
}

// PortsOf returns a copy of the Machine's ports, each by the number in its owner tag.
func (p *Project) PortsOf(machine types.UID) map[int]Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[int]Port, len(p.ports[machine]))
	for n, port := range p.ports[machine] {
		out[n] = port
	}
	return out
}

// FloatingIPOf returns the Machine's floating IP, and reports whether there is one.
func (p *Project) FloatingIPOf(machine types.UID) (FloatingIP, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ip, ok := p.floating[machine]
	return ip, ok
}

// ForgetPort drops the n-th port of a Machine, which was deleted, or was looked for and not found. A port with another ID, which
// a list has shown meanwhile, stays.
func (p *Project) ForgetPort(machine types.UID, n int, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports[machine][n].ID == id {
		p.dropPort(machine, n)
	}
}

// ForgetFloatingIP drops the floating IP of a Machine, which was deleted.
func (p *Project) ForgetFloatingIP(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.floating, machine)
}

// DoubtPorts has the Machine's ports looked up before they are used again.
func (p *Project) DoubtPorts(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, port := range p.ports[machine] {
		port.Doubtful = true
		p.ports[machine][n] = port
	}
}
