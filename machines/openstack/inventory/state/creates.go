package state

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// A create with an unknown outcome counts as failed when SettleTime has passed since the call ended, and at least settleLists
// complete lists since the call have not shown the resource.
const (
	SettleTime  = 2 * time.Minute
	settleLists = 2
	// SecondLookAfter is the time from drover's start to the second look at inherited creates: server creates that the previous
	// leader may have sent. In the second look, drover reads the Machines' ports by their IDs, and then lists the servers. This
	// shows the outcome of the creates: the previous leader sends nothing once this process has the lease, and after this time the
	// cloud has usually finished what was in progress. Even if the list still lacks a server, the server's port is already bound
	// to the server. A create that arrives even later names a port that drover has replaced by then, so the cloud refuses it.
	SecondLookAfter = 3 * time.Second
)

// creates holds the creates with an unknown outcome, by the tags of their resources. Such a create may have succeeded, so it is not
// repeated before it is resolved.
type creates map[Tag]create

// create is a create with an unknown outcome.
type create struct {
	// ended is when the call ended. fulls is the number of complete lists before that time.
	ended time.Time
	fulls int
	// inherited is true when the previous leader may have sent the create and may have died before the answer. The second look
	// shows the outcome (see [SecondLookAfter]).
	inherited bool
}

// settled reports whether the create counts as failed, so that it may be repeated. fulls is the current number of complete lists.
func (c create) settled(now time.Time, fulls int) bool {
	return !c.inherited && now.Sub(c.ended) >= SettleTime && fulls-c.fulls >= settleLists
}

// of returns the tags of the Machine's creates in doubt.
func (d creates) of(machine types.UID) (tags []Tag) {
	for tag := range d {
		if tag.Machine == machine {
			tags = append(tags, tag)
		}
	}
	return tags
}

// inherited returns the Machines of inherited creates, sorted.
func (d creates) inherited() (machines []types.UID) {
	for tag, c := range d {
		if c.inherited {
			machines = append(machines, tag.Machine)
		}
	}
	slices.Sort(machines)
	return machines
}

// serverTag returns the tag of a Machine's server.
func (p *Project) serverTag(machine types.UID) Tag {
	return p.cluster.Tag(cloud.ResourceServer, machine, 0)
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
	r := Resources{Ports: p.Addresses.Ports(machine), InDoubt: p.creates.of(machine)}
	if ip, has := p.Addresses.floating[machine]; has {
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
	p.creates[tag] = create{ended: now, fulls: p.fulls}
	if tag.Kind == cloud.ResourceServer {
		p.Addresses.setNamedByCreate(tag.Machine)
	}
}

// CloseCreate closes an earlier create of the resource with that tag if it counts as failed by now. It returns Transient while the create
// is in doubt or, for a server, while one of the Machine's ports is bound to an unknown server.
func (p *Project) CloseCreate(tag Tag, now time.Time) error {
	c, inDoubt := p.creates[tag]
	at := c.ended.UTC().Format("15:04:05")
	switch {
	case inDoubt && c.settled(now, p.fulls):
		delete(p.creates, tag)
	case c.inherited:
		return Unsettled("drover started at %s and found a port of this Machine, so the previous leader may have created the %s as well; drover looks for it", at, tag.Kind)
	case inDoubt:
		return Unsettled("it is not known yet whether the call at %s created the %s; drover looks for it", at, tag.Kind)
	}
	bound := p.boundServer(tag.Machine)
	if tag.Kind != cloud.ResourceServer || bound == "" {
		return nil
	}
	return Unsettled("server %s already uses the port; drover looks the server up", bound)
}

// boundServer returns the ID of the server that one of the Machine's ports is bound to and that no list has shown; empty when
// there is none.
func (p *Project) boundServer(machine types.UID) string {
	for _, port := range p.Addresses.ports[machine] {
		if port.DeviceID != "" && p.Servers.byID[port.DeviceID] == nil {
			return port.DeviceID
		}
	}
	return ""
}

// AddServer adds a server that was just created for a Machine with its reserved quota, with the ID from Nova's answer.
func (p *Project) AddServer(machine types.UID, serverID, name string, now time.Time) {
	delete(p.Quotas.reserved, machine)
	p.Servers.merge(ServerRow{ID: serverID, Name: name, Status: statusBuild, Metadata: p.cluster.metadata(machine)}, now)
}

// AddPort adds a port that this process has just created. No request to create a server names the port yet.
func (p *Project) AddPort(tag Tag, port Port, now time.Time) {
	delete(p.creates, tag)
	p.Addresses.setPort(tag, port, now)
}

// SetPort stores a port that Neutron has shown. Another process may have sent a server create that names the port, unless a create of
// this port is in doubt: then this process has sent that create, and drover has not known the port's ID until now.
func (p *Project) SetPort(tag Tag, port Port, now time.Time) {
	_, sent := p.creates[tag]
	port.NamedByCreate = !sent
	p.AddPort(tag, port, now)
}

// SetPorts stores the listed ports that have an owner tag of this cluster.
func (p *Project) SetPorts(all []Port, now time.Time) {
	for _, port := range all {
		if tag, ok := p.cluster.Read(cloud.ResourcePort, port.Description); ok {
			p.SetPort(tag, port, now)
		}
	}
}

// SetFloatingIP stores a floating IP.
func (p *Project) SetFloatingIP(tag Tag, ip FloatingIP, now time.Time) {
	delete(p.creates, tag)
	p.Addresses.setFloatingIP(tag, ip, now)
}

// FoundUnbound stores a port that was just looked up. It returns a Transient error when the port is bound to a server that is not
// known to be gone. drover must look up that server first (see InDoubt).
func (p *Project) FoundUnbound(tag Tag, port Port, now time.Time) error {
	p.SetPort(tag, port, now)
	if port.DeviceID == "" || p.IsGone(port.DeviceID) {
		return nil
	}
	return Unsettled("port %s is already bound to server %s; drover looks the server up", port.ID, port.DeviceID)
}

// IsGone reports whether a server was known and is gone.
func (p *Project) IsGone(serverID string) bool {
	k := p.Servers.byID[serverID]
	return k != nil && k.gone()
}

// HasAddresses reports whether ports or floating IPs of the Machine are known, or a create for it is in doubt.
func (p *Project) HasAddresses(machine types.UID) bool {
	known := p.ResourcesOf(machine)
	return known.Any()
}

// HasNothingOf reports whether servers, ports and floating IPs have all been listed since the start, and no resource of the
// Machine exists or may exist.
func (p *Project) HasNothingOf(machine types.UID) bool {
	living, _ := p.Servers.ofMachine(machine)
	return p.isSynced() && len(living) == 0 && !p.HasAddresses(machine)
}
