package known

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// serverTag returns the tag of a Machine's server.
func (p *Project) serverTag(machine types.UID) owner.Tag {
	return p.cluster.Tag(owner.ServerKind, machine, 0)
}

// Attempted notes that a create failed and that it is not known whether it worked: it is in doubt until a list shows what it made or it
// is settled, and the ports that a server was ordered on are not used for another one.
func (p *Project) Attempted(tag owner.Tag, now time.Time) {
	p.Creates.Add(tag, now, p.fulls)
	if tag.Kind == owner.ServerKind {
		p.Addresses.MarkOrdered(tag.Machine)
	}
}

// MayMake returns nil when what has that tag may be made: no earlier create of it is in doubt, and no other server has the port that a
// server would get. Otherwise the error is Transient. A create that is settled by now is not in doubt any more.
func (p *Project) MayMake(tag owner.Tag, now time.Time) error {
	if reason := p.Creates.Settle(tag, now, p.fulls); reason != "" {
		return unsettled("%s", reason)
	}
	bound := p.boundServer(tag.Machine)
	if tag.Kind != owner.ServerKind || bound == "" {
		return nil
	}
	return unsettled("server %s has the port already; it is looked up", bound)
}

// boundServer returns the ID of the server that one of the Machine's ports is bound to and that no list has shown; empty: none.
func (p *Project) boundServer(machine types.UID) string {
	for _, port := range p.Addresses.Ports(machine) {
		if port.ServerID != "" && p.Servers.ByID(port.ServerID) == nil {
			return port.ServerID
		}
	}
	return ""
}

// AddServer adds a server that was just ordered for a Machine, under the ID in Nova's answer.
func (p *Project) AddServer(machine types.UID, serverID, name string, now time.Time) {
	p.Servers.Merge(servers.Row{ID: serverID, Name: name, Status: servers.StatusBuild, Metadata: p.cluster.Metadata(machine)}, now)
}

// SetPort stores a port. A port that is found while a create of this process for it is in doubt was made by that create: no order for
// a server names it.
func (p *Project) SetPort(tag owner.Tag, port addresses.Port, now time.Time) {
	if p.Creates.Has(tag) {
		port.Ordered = false
	}
	p.Creates.Close(tag)
	p.Addresses.SetPort(tag, port, now)
}

// SetPorts stores those of the listed ports that have an owner tag of this cluster.
func (p *Project) SetPorts(rows []addresses.PortRow, now time.Time) {
	for i := range rows {
		if tag, ok := p.cluster.Read(owner.PortKind, rows[i].Description); ok {
			p.SetPort(tag, rows[i].Owned(), now)
		}
	}
}

// SetFloatingIP stores a floating IP.
func (p *Project) SetFloatingIP(tag owner.Tag, ip addresses.FloatingIP, now time.Time) {
	p.Creates.Close(tag)
	p.Addresses.SetFloatingIP(tag, ip, now)
}

// FoundUnbound stores a port that was just looked up. The error is Transient when the port is bound to a server that is not known to
// be gone, which InDoubt returns then.
func (p *Project) FoundUnbound(tag owner.Tag, row *addresses.PortRow, now time.Time) error {
	p.SetPort(tag, row.Owned(), now)
	if k := p.Servers.ByID(row.DeviceID); row.DeviceID == "" || k != nil && k.Gone {
		return nil
	}
	return unsettled("port %s is bound to server %s already; it is looked up", row.ID, row.DeviceID)
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for it is in doubt.
func (p *Project) HasAddresses(machine types.UID) bool {
	return p.Addresses.Has(machine) || p.Creates.HasOf(machine)
}

// HasNothingOf reports whether all lists have been seen since the start and nothing of the Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	living, _ := p.Servers.OfMachine(machine)
	return p.IsSynced() && len(living) == 0 && !p.HasAddresses(machine)
}
