package neutron

import (
	"fmt"
	"net/netip"
)

// Network is a network.
type Network struct {
	// ID; empty: made up.
	ID, Name string
	// Project it belongs to; empty: shared by all.
	Project string
	// External networks are where floating IPs come from.
	External bool
	// Unrouted networks have no router to an external one: their ports take no floating IP.
	Unrouted bool
}

// Subnet is a subnet of the network with that ID.
type Subnet struct {
	// ID; empty: made up.
	ID, Name, Network, CIDR string
	// First and Last bound the pool; empty: all of the CIDR but network, gateway (the first) and broadcast.
	First, Last string
}

// AddNetwork adds a network without subnets and returns its ID.
func (svc *Service) AddNetwork(in Network) string {
	n := &Net{ID: svc.kernel.OrNew(in.ID), name: in.Name, external: in.External, unrouted: in.Unrouted, Subnets: []string{}, stamps: newStamps(svc.kernel.Now())}
	if in.Project != "" {
		n.project = svc.projects.ProjectID(in.Project)
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

// lastHost is the last address but one of a prefix: the last is for broadcast.
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
