package neutron

import (
	"cmp"
	"fmt"
	"net/netip"
)

// Network is a network.
type Network struct {
	// ID and Name identify the network. An empty ID means a generated one.
	ID, Name string
	// Project is the project that the network belongs to. Empty means that the network belongs to the administrator's project and,
	// unless it is external, is shared with all projects.
	Project string
	// SharedWith are the projects that the network's project shares it with, by a policy of RBAC.
	SharedWith []string
	// External reports whether floating IPs come from the network.
	External bool
	// Unrouted reports whether the network has no router to an external one. Its ports then cannot have a floating IP.
	Unrouted bool
	// PortSecurityOff reports whether ports in the network have port security off, unless a request turns it on. A port without port
	// security is in no security group.
	PortSecurityOff bool
}

// Subnet is a subnet of the network with the ID Network.
type Subnet struct {
	// An empty ID means a generated one.
	ID, Name, Network, CIDR string
	// First and Last are the first and the last address of the pool. Empty means the whole CIDR except the network
	// address, the gateway (the first address after it) and the broadcast address.
	First, Last string
}

// AddNetwork adds a network without subnets and returns its ID.
func (svc *Service) AddNetwork(in Network) string {
	n := &Net{ID: svc.kernel.OrNew(in.ID), name: in.Name, external: in.External, unrouted: in.Unrouted, open: in.PortSecurityOff, Subnets: []string{}, stamps: newStamps(svc.kernel.Now())}
	n.project = svc.projects.ProjectID(cmp.Or(in.Project, "admin"))
	for _, project := range in.SharedWith {
		n.sharedWith = append(n.sharedWith, svc.projects.ProjectID(project))
	}
	if in.Project == "" && !in.External {
		n.sharedWith = []string{everyone}
	}
	svc.networks.Put(n.ID, n)
	return n.ID
}

// AddSubnet adds a subnet and returns its ID. It returns an error when its network does not exist, or when its CIDR or pool
// cannot be parsed.
func (svc *Service) AddSubnet(in Subnet) (string, error) {
	n, known := svc.networks.Get(in.Network)
	if !known {
		return "", fmt.Errorf("adding subnet %q: there is no network %q", in.Name, in.Network)
	}
	cidr, err := netip.ParsePrefix(in.CIDR)
	if err != nil {
		return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
	}
	cidr = cidr.Masked()
	s := &subnet{id: svc.kernel.OrNew(in.ID), name: in.Name, network: n.ID, project: n.project, cidr: cidr, used: map[netip.Addr]bool{}, stamps: newStamps(svc.kernel.Now())}
	s.gateway = cidr.Addr().Next()
	s.first, s.last = s.gateway.Next(), lastHost(cidr)
	if in.First != "" {
		if s.first, err = netip.ParseAddr(in.First); err != nil {
			return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
		}
	}
	if in.Last != "" {
		if s.last, err = netip.ParseAddr(in.Last); err != nil {
			return "", fmt.Errorf("adding subnet %q: %w", in.Name, err)
		}
	}
	s.next = s.first
	n.Subnets = append(n.Subnets[:len(n.Subnets):len(n.Subnets)], s.id)
	svc.subnets.Put(s.id, s)
	return s.id, nil
}

// lastHost returns the last address of a prefix that a port can have: the address before the broadcast address.
func lastHost(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a.Prev()
}

// AddSecurityGroup adds a group to a project (name or ID) and returns its ID.
func (svc *Service) AddSecurityGroup(project, name string) string {
	return svc.newGroup(svc.projects.ProjectID(project), name, svc.kernel.Now()).id
}
