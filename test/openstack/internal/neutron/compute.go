package neutron

import (
	"slices"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/api"
	"github.com/drover-project/drover/test/openstack/internal/quotas"
)

// Down reports whether the service is stopped, so that no client can reach it.
func (svc *Service) Down() bool { return svc.isDown }

// Port returns a port by its ID.
func (svc *Service) Port(id string) (*Port, bool) { return svc.ports.Get(id) }

// NetworkName returns the name of an existing network.
func (svc *Service) NetworkName(id string) string {
	n, _ := svc.networks.Get(id)
	return n.name
}

// IsExternal reports whether floating IPs can come from the network.
func (svc *Service) IsExternal(id string) bool {
	n, known := svc.networks.Get(id)
	return known && n.external
}

// InternalNetworks returns the networks that a project sees and that are not external.
func (svc *Service) InternalNetworks(project string) []*Net {
	var found []*Net
	for _, n := range svc.networks.All() {
		if n.seenBy(api.Caller{Project: project}) && !n.external {
			found = append(found, n)
		}
	}
	return found
}

// FloatingAddresses returns the floating addresses of a port.
func (svc *Service) FloatingAddresses(portID string) []FixedIP {
	var out []FixedIP
	for _, f := range svc.floatingIPs.All() {
		if f.port == portID {
			out = append(out, f.address)
		}
	}
	return out
}

// GroupNames returns the names of the security groups that a port is in.
func (svc *Service) GroupNames(p *Port) []string {
	var names []string
	for _, id := range p.groups {
		if g, there := svc.groups.Get(id); there {
			names = append(names, g.Name)
		}
	}
	return names
}

// GroupsNamed returns a project's security groups with the name, or the security group with the ID.
func (svc *Service) GroupsNamed(project, nameOrID string) []*SecurityGroup {
	var found []*SecurityGroup
	for _, g := range svc.groups.All() {
		if g.project == project && (g.Name == nameOrID || g.id == nameOrID) {
			found = append(found, g)
		}
	}
	return found
}

// HasRoom reports whether the quota allows a project the given number of additional ports.
func (svc *Service) HasRoom(project string, more int) bool {
	return !quotas.Beyond(svc.quotas.Of(project).Ports, svc.portCount[project]+more)
}

// ServerPort creates a port for a server as Nova does: without a name and a description, and with the security groups named in
// groups. The argument fixed is the port's address; empty means any address.
func (svc *Service) ServerPort(project, network, fixed string, groups []string, at time.Time) (*Port, api.Reply) {
	ids := []string{}
	for _, g := range svc.groups.All() {
		if g.project == project && slices.Contains(groups, g.Name) {
			ids = append(ids, g.id)
		}
	}
	spec := &portSpec{NetworkID: network, SecurityGroups: &ids}
	if n, known := svc.networks.Get(network); known && n.open {
		spec.SecurityGroups = nil
	}
	if fixed != "" {
		spec.FixedIPs = &[]fixedIPSpec{{IPAddress: fixed}}
	}
	return svc.makePort(&api.Request{Service: api.ServiceNetwork, Now: at, Caller: api.Caller{Project: project}}, spec)
}

// Bind binds a port to a server on a host.
func (p *Port) Bind(server, zone, host string, at time.Time) {
	p.DeviceID, p.deviceOwner, p.host, p.Status = server, "compute:"+zone, host, "DOWN"
	p.touch(at)
}

// Activate sets the status of a port to ACTIVE.
func (p *Port) Activate(at time.Time) {
	p.Status = "ACTIVE"
	p.touch(at)
}

// Unbind unbinds a port from its server.
func (p *Port) Unbind(at time.Time) {
	p.DeviceID, p.deviceOwner, p.host, p.Status = "", "", "", "DOWN"
	p.touch(at)
}

// AddressTaken reports whether a port of a network has an address.
func (svc *Service) AddressTaken(n *Net, address string) bool {
	for _, p := range svc.ports.All() {
		if p.Network == n.ID && slices.ContainsFunc(p.FixedIPs, func(f FixedIP) bool { return f.Address.String() == address }) {
			return true
		}
	}
	return false
}
