package inventory

import "github.com/drover-project/drover/machines/openstack/inventory/state"

import "k8s.io/apimachinery/pkg/types"

// AddPort adds a port that this process has just created. No request to create a server names the port yet.
func (p *Project) AddPort(tag state.Tag, row *state.PortRow) {
	port := row.Owned()
	port.NamedByCreate = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetPort(tag, port, p.clock.Now())
}

// FoundPort adds a port that was found by its owner tag.
func (p *Project) FoundPort(tag state.Tag, row *state.PortRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetPort(tag, row.Owned(), p.clock.Now())
}

// FoundUnbound records a port that was just looked up. It returns a Transient error when the port is bound to a server that is
// not known to be gone: drover must look that server up first (see InDoubt).
func (p *Project) FoundUnbound(tag state.Tag, row *state.PortRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.FoundUnbound(tag, row, p.clock.Now())
}

// PortsOf returns a copy of the Machine's ports, by the number in their owner tags.
func (p *Project) PortsOf(machine types.UID) map[int]state.Port {
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

// DoubtPorts marks the Machine's ports as doubtful. drover then looks each of the ports up before it uses that port again.
func (p *Project) DoubtPorts(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Addresses.DoubtPorts(machine)
}

// AddFloatingIP adds a floating IP that was created, found by its owner tag, or moved to another port.
func (p *Project) AddFloatingIP(tag state.Tag, ip state.FloatingIP) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.SetFloatingIP(tag, ip, p.clock.Now())
}

// FloatingIPOf returns the Machine's floating IP, and reports whether there is one.
func (p *Project) FloatingIPOf(machine types.UID) (state.FloatingIP, bool) {
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

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone. A floating
// IP with an owner tag belongs to the Machine in the tag. A floating IP without an owner tag belongs to the Machine if the
// inventory has seen it on the Machine's own server, unless the floating IP is on another port now. If it is on no port now, it
// also belongs to the Machine when recorded is true: the Machine's status, which only drover can write, records the floating IP.
func (p *Project) OwnsFloatingIP(m *state.Machine, ip *state.FloatingIPRow, recorded bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.OwnsFloatingIP(m, ip, recorded)
}

// Owned returns the number of the Machine's known ports, and reports whether a floating IP of the Machine is known.
func (p *Project) Owned(machine types.UID) (ports int, floatingIP bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, floatingIP = p.known.Addresses.FloatingIP(machine)
	return len(p.known.Addresses.Ports(machine)), floatingIP
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for the Machine is in doubt.
func (p *Project) HasAddresses(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasAddresses(machine)
}

// HasNothingOf reports whether servers, ports and floating IPs have all been listed since the start, and no resource of the
// Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.HasNothingOf(machine)
}
