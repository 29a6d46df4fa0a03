package openstack

import (
	"slices"
	"time"
)

// down reports whether nobody reaches the service.
func (svc *neutron) down() bool { return svc.isDown }

// port returns a port by its ID.
func (svc *neutron) port(id string) (*port, bool) { return svc.ports.get(id) }

// networkName returns the name of a network that there is.
func (svc *neutron) networkName(id string) string {
	n, _ := svc.networks.get(id)
	return n.name
}

// isExternal reports whether a network is one that floating IPs come from.
func (svc *neutron) isExternal(id string) bool {
	n, known := svc.networks.get(id)
	return known && n.external
}

// internalNetworks returns the networks that a project sees and that are not external.
func (svc *neutron) internalNetworks(project string) []*netw {
	var found []*netw
	for _, n := range svc.networks.all() {
		if n.seenBy(project) && !n.external {
			found = append(found, n)
		}
	}
	return found
}

// floatingAddresses returns the floating addresses of a port.
func (svc *neutron) floatingAddresses(portID string) []fixedIP {
	var out []fixedIP
	for _, f := range svc.floatingIPs.all() {
		if f.port == portID {
			out = append(out, f.address)
		}
	}
	return out
}

// groupNames returns the names of the security groups that a port is in.
func (svc *neutron) groupNames(p *port) []string {
	var names []string
	for _, id := range p.groups {
		if g, there := svc.groups.get(id); there {
			names = append(names, g.name)
		}
	}
	return names
}

// groupsNamed returns a project's security groups of a name, or the one with that ID.
func (svc *neutron) groupsNamed(project, nameOrID string) []*securityGroup {
	var found []*securityGroup
	for _, g := range svc.groups.all() {
		if g.project == project && (g.name == nameOrID || g.id == nameOrID) {
			found = append(found, g)
		}
	}
	return found
}

// hasRoom reports whether a project may have so many more ports.
func (svc *neutron) hasRoom(project string, more int) bool {
	return !beyond(svc.quotas.of(project).Ports, svc.portCount[project]+more)
}

// serverPort makes a port for a server, as Nova does: no name, no description, the security groups of these names. fixed is its
// address; empty: any.
func (svc *neutron) serverPort(project, network, fixed string, groups []string, at time.Time) (*port, reply) {
	ids := []string{}
	for _, g := range svc.groups.all() {
		if g.project == project && slices.Contains(groups, g.name) {
			ids = append(ids, g.id)
		}
	}
	spec := &portSpec{NetworkID: network, SecurityGroups: &ids}
	if fixed != "" {
		spec.FixedIPs = &[]fixedIPSpec{{IPAddress: fixed}}
	}
	return svc.makePort(&request{service: serviceNetwork, now: at, caller: caller{project: project}}, spec)
}

// bind gives a port to a server on a host.
func (p *port) bind(server, zone, host string, at time.Time) {
	p.deviceID, p.deviceOwner, p.host, p.status = server, "compute:"+zone, host, "DOWN"
	p.touch(at)
}

// activate shows a port as ACTIVE.
func (p *port) activate(at time.Time) {
	p.status = "ACTIVE"
	p.touch(at)
}

// unbind frees a port from its server.
func (p *port) unbind(at time.Time) {
	p.deviceID, p.deviceOwner, p.host, p.status = "", "", "", "DOWN"
	p.touch(at)
}

// addressTaken reports whether a port of a network has an address.
func (svc *neutron) addressTaken(n *netw, address string) bool {
	for _, p := range svc.ports.all() {
		if p.network == n.id && slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.address.String() == address }) {
			return true
		}
	}
	return false
}
