package state

import "time"

// Adoptee returns the tags of the server that the Machine must adopt. It reports whether that server exists and does not belong
// to the Machine yet.
func (p *Project) Adoptee(m *Machine) (ServerTags, bool) {
	k := p.Servers.get(m.Adopts)
	if k == nil || !k.present() || k.belongsTo(m.UID) {
		return ServerTags{}, false
	}
	return k.Tags(), true
}

// Untagged returns up to limit servers of Machines that lack one of their two tags, and reports whether there are more. It records
// that tagging these servers was attempted.
func (p *Project) Untagged(limit int, now time.Time) ([]Untagged, bool) {
	return p.Servers.untagged(limit, now, p.isRegistered)
}

// AdoptedPort is a port of a server that is being adopted, with its floating IP and with the new owner tags of both.
type AdoptedPort struct {
	Port Port
	Was  Tag
	Tag  Tag
	// FloatingIP is nil when the port has none.
	FloatingIP    *FloatingIP
	FloatingIPTag Tag
}

// AdoptedPorts returns the ports of a server that is being adopted, unsorted. It returns none when the server's tags already name
// its Machine.
func (p *Project) AdoptedPorts(u Untagged) (adopted []AdoptedPort) {
	if u.Was == "" || u.Was == u.Machine {
		return nil
	}
	ip, hasIP := p.Addresses.FloatingIP(u.Was)
	for n, port := range p.Addresses.Ports(u.Was) {
		if port.ServerID != u.ID {
			continue
		}
		a := AdoptedPort{Port: port, Was: p.cluster.Tag(PortKind, u.Was, n), Tag: p.cluster.Tag(PortKind, u.Machine, n)}
		if hasIP && ip.PortID == port.ID {
			a.FloatingIP, a.FloatingIPTag = &ip, p.cluster.Tag(FloatingIPKind, u.Machine, 0)
		}
		adopted = append(adopted, a)
	}
	return adopted
}

// AdoptedIP records that the owner tag of a floating IP was written.
func (p *Project) AdoptedIP(a AdoptedPort, now time.Time) {
	p.SetFloatingIP(a.FloatingIPTag, *a.FloatingIP, now)
	p.Addresses.ForgetFloatingIP(a.Was.Machine)
}

// AdoptedPort records that the owner tag of a port was written.
func (p *Project) AdoptedPort(a AdoptedPort, now time.Time) {
	p.Addresses.ForgetPort(a.Was.Machine, a.Was.N, a.Port.ID)
	p.SetPort(a.Tag, a.Port, now)
}
