package known

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/quota"
)

// Retained is a port or floating IP that is retained for the next attempt to make the server of its Machine.
type Retained struct {
	Tag owner.Tag
	ID  string
}

// Retained returns up to limit ports and floating IPs that are to be released, since a quota has been exhausted for two steps of the
// back-off (CAPI-22): others may need them, and the next attempt makes them again. Floating IPs come first. A Machine that is not idle
// keeps what it has.
func (p *Project) Retained(limit int, now time.Time) (found []Retained) {
	if !p.Quota.Exhausted(now) {
		return nil
	}
	add := func(kind owner.Kind, machine types.UID, n int, id string, since time.Time) {
		if len(found) < limit && now.Sub(since) >= quota.RetainedFor && p.isIdle(machine) {
			found = append(found, Retained{p.cluster.Tag(kind, machine, n), id})
		}
	}
	for machine, ip := range p.Addresses.AllFloatingIPs() {
		add(owner.FloatingIPKind, machine, 0, ip.ID, ip.Since)
	}
	for machine, all := range p.Addresses.AllPorts() {
		for n, port := range all {
			add(owner.PortKind, machine, n, port.ID, port.Since)
		}
	}
	return found
}

// BeginRelease reports whether a retained port or floating IP may be deleted now: it is still the one that is known, and its Machine
// has no use for it. If so, nothing is made for the Machine until EndRelease.
func (p *Project) BeginRelease(r Retained) bool {
	ip, _ := p.Addresses.FloatingIP(r.Tag.Machine)
	id := ip.ID
	if r.Tag.Kind == owner.PortKind {
		id = p.Addresses.Ports(r.Tag.Machine)[r.Tag.N].ID
	}
	if id != r.ID || !p.isIdle(r.Tag.Machine) {
		return false
	}
	p.uses[r.Tag.Machine] = releasing
	return true
}

// EndRelease notes whether the deletion succeeded.
func (p *Project) EndRelease(r Retained, released bool) {
	delete(p.uses, r.Tag.Machine)
	switch {
	case !released:
	case r.Tag.Kind == owner.FloatingIPKind:
		p.Addresses.ForgetFloatingIP(r.Tag.Machine)
	default:
		p.Addresses.ForgetPort(r.Tag.Machine, r.Tag.N, r.ID)
	}
}

// BeginMaking keeps the ports and floating IPs of a Machine from being released until EndMaking. The error is Transient while one of
// them is being released.
func (p *Project) BeginMaking(machine types.UID) error {
	if p.uses[machine] == releasing {
		return unsettled("a port or floating IP that was kept for the server is being released")
	}
	p.uses[machine] = making
	return nil
}

// EndMaking ends what BeginMaking began.
func (p *Project) EndMaking(machine types.UID) { delete(p.uses, machine) }

// isIdle reports whether a Machine has no server, and nothing of it is being made, expected or reserved.
func (p *Project) isIdle(machine types.UID) bool {
	living, _ := p.Servers.OfMachine(machine)
	m, known := p.machines.Get(machine)
	return known && m.ServerID == "" && len(living) == 0 && !p.Quota.HasReserved(machine) && p.uses[machine] == unused && !p.Creates.HasOf(machine)
}
