package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Retained is a port or floating IP that is retained for the next attempt to create its Machine's server.
type Retained struct {
	Tag Tag
	ID  string
}

// Retained returns up to limit ports and floating IPs to delete, once a quota has been exhausted for two steps of the back-off
// (CAPI-22). Other Machines may need them, and the next attempt to create the Machine's server creates new ones. Floating IPs
// come first. It returns no port or floating IP that its Machine may need now (see isIdle).
func (p *Project) Retained(limit int, now time.Time) (found []Retained) {
	if !p.Quotas.exhausted(now) {
		return nil
	}
	add := func(kind Kind, machine types.UID, n int, id string, since time.Time) {
		if len(found) < limit && now.Sub(since) >= RetainedFor && p.isIdle(machine) {
			found = append(found, Retained{p.cluster.Tag(kind, machine, n), id})
		}
	}
	for machine, ip := range p.Addresses.allFloatingIPs() {
		add(FloatingIPKind, machine, 0, ip.ID, ip.Since)
	}
	for machine, all := range p.Addresses.allPorts() {
		for n, port := range all {
			add(PortKind, machine, n, port.ID, port.Since)
		}
	}
	return found
}

// BeginRelease reports whether a retained port or floating IP may be deleted now: it is still the resource that drover uses for
// its owner tag, and the Machine does not need it. If BeginRelease returns true, nothing is created for the Machine until
// EndRelease.
func (p *Project) BeginRelease(r Retained) bool {
	ip, _ := p.Addresses.FloatingIP(r.Tag.Machine)
	id := ip.ID
	if r.Tag.Kind == PortKind {
		id = p.Addresses.Ports(r.Tag.Machine)[r.Tag.N].ID
	}
	if id != r.ID || !p.isIdle(r.Tag.Machine) {
		return false
	}
	p.uses[r.Tag.Machine] = releasing
	return true
}

// EndRelease records whether the deletion of a retained port or floating IP succeeded, and allows creates for the Machine again.
func (p *Project) EndRelease(r Retained, released bool) {
	delete(p.uses, r.Tag.Machine)
	switch {
	case !released:
	case r.Tag.Kind == FloatingIPKind:
		p.Addresses.ForgetFloatingIP(r.Tag.Machine)
	default:
		p.Addresses.ForgetPort(r.Tag.Machine, r.Tag.N, r.ID)
	}
}

// BeginMaking reserves the quota want for a Machine's missing resources, and protects its ports and floating IPs from being released
// until EndMaking. It returns Transient while a port or floating IP of the Machine is being released, or an earlier create of its server
// is in doubt, and Quota when there is not enough.
func (p *Project) BeginMaking(machine types.UID, want Amounts, now time.Time) error {
	if p.uses[machine] == releasing {
		return unsettled("a port or floating IP that was retained for the server is being released")
	}
	if err := p.CloseCreate(p.serverTag(machine), now); err != nil {
		return err
	}
	if err := p.Quotas.reserve(machine, want, now); err != nil {
		return err
	}
	p.uses[machine] = making
	return nil
}

// EndMaking allows the ports and floating IPs of the Machine to be released again.
func (p *Project) EndMaking(machine types.UID) { delete(p.uses, machine) }

// isIdle reports whether a Machine is registered, neither has nor names a server, and has no reserved quota, no create in doubt
// and no call in progress that uses its ports and floating IPs.
func (p *Project) isIdle(machine types.UID) bool {
	living, _ := p.Servers.ofMachine(machine)
	m, known := p.machines.Get(machine)
	return known && m.ServerID == "" && len(living) == 0 && !p.Quotas.hasReserved(machine) && p.uses[machine] == unused && !p.Creates.hasOf(machine)
}
