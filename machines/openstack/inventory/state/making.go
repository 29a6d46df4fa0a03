package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// serverTag returns the tag of a Machine's server.
func (p *Project) serverTag(machine types.UID) Tag {
	return p.cluster.Tag(ServerKind, machine, 0)
}

// Resources are the known resources of a Machine besides its servers.
type Resources struct {
	// Ports are by the number in their owner tags.
	Ports map[int]Port
	// FloatingIP is nil when there is none.
	FloatingIP *FloatingIP
	// InDoubt are the tags of the creates in doubt.
	InDoubt []Tag
}

// Any reports whether a resource exists or may exist.
func (r *Resources) Any() bool { return len(r.Ports) > 0 || r.FloatingIP != nil || len(r.InDoubt) > 0 }

// ResourcesOf returns what is known of a Machine's resources besides its servers. The result is a copy.
func (p *Project) ResourcesOf(machine types.UID) Resources {
	r := Resources{Ports: p.Addresses.Ports(machine), InDoubt: p.Creates.Of(machine)}
	if ip, has := p.Addresses.FloatingIP(machine); has {
		r.FloatingIP = &ip
	}
	return r
}

// CreateFailed records the error of a create that needed the quota want, and reports whether to list soon because of it. When the
// error does not show whether the resource was created, the create is in doubt until a list shows the resource or enough time has
// passed.
func (p *Project) CreateFailed(tag Tag, err error, want Amounts, now time.Time) (soon bool) {
	if client.UnknownOutcome(err) {
		p.attempted(tag, now)
		soon = true
	}
	if e := fault.Of(err); e.Class == fault.Quota {
		p.Quotas.refused(tag.Machine, e, want, now)
		soon = true
	}
	return soon
}

// attempted records a create with an unknown outcome. A server create in doubt also makes the Machine's ports unusable for another
// server.
func (p *Project) attempted(tag Tag, now time.Time) {
	p.Creates.add(tag, now, p.fulls)
	if tag.Kind == ServerKind {
		p.Addresses.setNamedByCreate(tag.Machine)
	}
}

// CloseCreate closes an earlier create of the resource with that tag if it counts as failed by now. It returns Transient while the create
// is in doubt or, for a server, while one of the Machine's ports is bound to an unknown server.
func (p *Project) CloseCreate(tag Tag, now time.Time) error {
	if reason := p.Creates.settle(tag, now, p.fulls); reason != "" {
		return unsettled("%s", reason)
	}
	bound := p.boundServer(tag.Machine)
	if tag.Kind != ServerKind || bound == "" {
		return nil
	}
	return unsettled("server %s already uses the port; drover looks the server up", bound)
}

// boundServer returns the ID of the server that one of the Machine's ports is bound to and that no list has shown; empty when
// there is none.
func (p *Project) boundServer(machine types.UID) string {
	for _, port := range p.Addresses.Ports(machine) {
		if port.ServerID != "" && p.Servers.get(port.ServerID) == nil {
			return port.ServerID
		}
	}
	return ""
}

// AddServer adds a server that was just created for a Machine, with the ID from Nova's answer.
func (p *Project) AddServer(machine types.UID, serverID, name string, now time.Time) {
	p.Servers.merge(ServerRow{ID: serverID, Name: name, Status: statusBuild, Metadata: p.cluster.Metadata(machine)}, now)
}

// AddPort adds a port that this process has just created, with the reserved quota. No request to create a server names the port yet.
func (p *Project) AddPort(tag Tag, row *PortRow, now time.Time) {
	port := row.Owned()
	port.NamedByCreate = false
	p.Quotas.Use(tag.Machine, Amounts{Ports: 1})
	p.SetPort(tag, port, now)
}

// SetPort stores a port. If a create of this port is in doubt, this process has sent that create. Then no create of a server
// names the port yet, because drover has not known the port's ID until now.
func (p *Project) SetPort(tag Tag, port Port, now time.Time) {
	if p.Creates.Has(tag) {
		port.NamedByCreate = false
	}
	p.Creates.close(tag)
	p.Addresses.setPort(tag, port, now)
}

// SetPorts stores the listed ports that have an owner tag of this cluster.
func (p *Project) SetPorts(rows []PortRow, now time.Time) {
	for i := range rows {
		if tag, ok := p.cluster.Read(PortKind, rows[i].Description); ok {
			p.SetPort(tag, rows[i].Owned(), now)
		}
	}
}

// SetFloatingIP stores a floating IP.
func (p *Project) SetFloatingIP(tag Tag, ip FloatingIP, now time.Time) {
	p.Creates.close(tag)
	p.Addresses.setFloatingIP(tag, ip, now)
}

// FoundUnbound stores a port that was just looked up. It returns a Transient error when the port is bound to a server that is not
// known to be gone. drover must look up that server first (see InDoubt).
func (p *Project) FoundUnbound(tag Tag, row *PortRow, now time.Time) error {
	p.SetPort(tag, row.Owned(), now)
	if row.DeviceID == "" || p.IsGone(row.DeviceID) {
		return nil
	}
	return unsettled("port %s is already bound to server %s; drover looks the server up", row.ID, row.DeviceID)
}

// IsGone reports whether a server was known and is gone.
func (p *Project) IsGone(serverID string) bool {
	k := p.Servers.get(serverID)
	return k != nil && k.gone
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for it is in doubt.
func (p *Project) HasAddresses(machine types.UID) bool {
	return p.Addresses.has(machine) || p.Creates.hasOf(machine)
}

// HasNothingOf reports whether servers, ports and floating IPs have all been listed since the start, and no resource of the
// Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	living, _ := p.Servers.ofMachine(machine)
	return p.isSynced() && len(living) == 0 && !p.HasAddresses(machine)
}
