package inventory

import "k8s.io/apimachinery/pkg/types"

// AddPort adds a port that this process has just created. No create of a server names it yet.
func (p *Project) AddPort(tag OwnerTag, row *PortRow) {
	port := row.Owned()
	port.NamedByCreate = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetPort(tag, port, p.clock.Now())
}

// FoundPort adds a port that was found by its owner tag.
func (p *Project) FoundPort(tag OwnerTag, row *PortRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetPort(tag, row.Owned(), p.clock.Now())
}

// FoundUnbound adds a port that was just looked up. It returns Transient when the port is bound to a server that is not known to be
// gone; InDoubt then returns that server.
func (p *Project) FoundUnbound(tag OwnerTag, row *PortRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.FoundUnbound(tag, row, p.clock.Now())
}

// PortsOf returns a copy of the Machine's ports, by the number in their owner tags.
func (p *Project) PortsOf(machine types.UID) map[int]Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Addresses.Ports(machine)
}

// ForgetPort removes the n-th port of a Machine, which was deleted or could not be found. A port with another ID, which a list has
// shown meanwhile, stays.
func (p *Project) ForgetPort(machine types.UID, n int, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Addresses.ForgetPort(machine, n, id)
}

// DoubtPorts has the Machine's ports looked up before they are used again.
func (p *Project) DoubtPorts(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Addresses.DoubtPorts(machine)
}

// AddFloatingIP adds a floating IP that was created, found by its owner tag, or moved to another port.
func (p *Project) AddFloatingIP(tag OwnerTag, ip FloatingIP) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetFloatingIP(tag, ip, p.clock.Now())
}

// FloatingIPOf returns the Machine's floating IP, and reports whether there is one.
func (p *Project) FloatingIPOf(machine types.UID) (FloatingIP, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Addresses.FloatingIP(machine)
}

// ForgetFloatingIP removes the deleted floating IP of a Machine.
func (p *Project) ForgetFloatingIP(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Addresses.ForgetFloatingIP(machine)
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone. It does when
// it has the Machine's owner tag. Without an owner tag it does when it was on the Machine's own server, either because the
// inventory has seen it there, or because the Machine's record has it (recorded), which only drover can write. A floating IP that
// is now on another port is not the Machine's any more.
func (p *Project) OwnsFloatingIP(m *Machine, ip *FloatingIPRow, recorded bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.OwnsFloatingIP(m, ip, recorded)
}

// Owned returns the number of the Machine's known ports, and whether a floating IP of it is known.
func (p *Project) Owned(machine types.UID) (ports int, floatingIP bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, floatingIP = p.known.Addresses.FloatingIP(machine)
	return len(p.known.Addresses.Ports(machine)), floatingIP
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or one of its creates is in doubt.
func (p *Project) HasAddresses(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasAddresses(machine)
}

// HasNothingOf reports whether all lists have been seen since the start and no resource of the Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasNothingOf(machine)
}
