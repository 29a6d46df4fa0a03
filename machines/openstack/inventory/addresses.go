package inventory

import "k8s.io/apimachinery/pkg/types"

// AddPort adds a port that this process just made. No order for a server names it yet.
func (p *Project) AddPort(tag OwnerTag, row *PortRow) {
	port := row.Owned()
	port.Ordered = false
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

// FoundUnbound adds a port that was just looked up. The error is Transient when the port is bound to a server that is not known to
// be gone, which InDoubt returns then.
func (p *Project) FoundUnbound(tag OwnerTag, row *PortRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.FoundUnbound(tag, row, p.clock.Now())
}

// PortsOf returns a copy of the Machine's ports, each by the number in its owner tag.
func (p *Project) PortsOf(machine types.UID) map[int]Port {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Addresses.Ports(machine)
}

// ForgetPort drops the n-th port of a Machine, which was deleted, or was looked for and not found. A port with another ID, which
// a list has shown meanwhile, stays.
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

// AddFloatingIP adds a floating IP that was made, found by its owner tag, or put on another port.
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

// ForgetFloatingIP drops the floating IP of a Machine, which was deleted.
func (p *Project) ForgetFloatingIP(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Addresses.ForgetFloatingIP(machine)
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone: it has the
// Machine's owner tag, or no owner tag and was on the Machine's own server. The inventory has seen it there, or recorded is true: the
// Machine's record says so, and only drover can write that. A floating IP that is on another port now is not the Machine's any
// more.
func (p *Project) OwnsFloatingIP(m *Machine, ip *FloatingIPRow, recorded bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.OwnsFloatingIP(m, ip, recorded)
}

// Owned returns how many ports of a Machine are known, and reports whether a floating IP of it is known.
func (p *Project) Owned(machine types.UID) (ports int, floatingIP bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, floatingIP = p.known.Addresses.FloatingIP(machine)
	return len(p.known.Addresses.Ports(machine)), floatingIP
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for it is open.
func (p *Project) HasAddresses(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasAddresses(machine)
}

// HasNothingOf reports whether all lists have been seen since the start and nothing of the Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasNothingOf(machine)
}
