package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Unjoined is a server that has not become a node although it should have by now.
type Unjoined struct {
	Machine types.UID
	Server  string
}

// Unjoined returns the servers whose ports must be looked up now, and the IDs of their Machines' ports, sorted. It returns a server
// once when the server has been ACTIVE for DetachedAfter without becoming a node. It also returns a server once for each
// other server of its Machine, because one of the two may have lost its port to the other.
func (p *Project) Unjoined(now time.Time) (due []Unjoined, ports []string) {
	for uid := range p.Servers.byMachine {
		if m, known := p.machines.Get(uid); !known || m.Joined || m.Leaving {
			continue
		}
		ids, before := p.Addresses.portIDs(uid), len(due)
		if len(ids) == 0 {
			continue
		}
		for _, k := range p.Servers.byMachine[uid] {
			if p.Servers.isPortLookDue(uid, k, now) {
				due = append(due, Unjoined{uid, k.ID})
			}
		}
		if len(due) > before {
			ports = append(ports, ids...)
		}
	}
	slices.Sort(ports)
	return due, ports
}

// Detach records the current bindings of the ports, and returns the Machines whose server has lost all its ports. Such a server
// has no network and counts as failed. Its ports must be replaced too, so Detach marks them as ports that a create with an
// unknown outcome may name.
func (p *Project) Detach(due []Unjoined, rows []Port, now time.Time) (machines []types.UID) {
	bound := make(map[string]string, len(rows))
	for i := range rows {
		bound[rows[i].ID] = rows[i].DeviceID
	}
	for _, d := range due {
		k, ports := p.Servers.byID[d.Server], p.Addresses.ports[d.Machine]
		if k == nil || len(ports) == 0 {
			continue
		}
		k.portsLooked = now
		p.Addresses.change(d.Machine, func(port *Port) { port.DeviceID = bound[port.ID] })
		if slices.ContainsFunc(slices.Collect(maps.Values(ports)), func(port Port) bool { return port.DeviceID == d.Server }) {
			continue
		}
		k.detached = fmt.Sprintf("server %s is ACTIVE without a network: port %s is no longer bound to it, as happens when two servers are created on one port; drover replaces the server",
			d.Server, strings.Join(p.Addresses.portIDs(d.Machine), ", "))
		p.Addresses.setNamedByCreate(d.Machine)
		machines = append(machines, d.Machine)
	}
	return machines
}

// Duplicates returns the servers that must be deleted now because a create with an unknown outcome succeeded late, when its Machine
// already had another server. It does not return the server that the Machine names. There are no duplicates unless that one belongs to the
// Machine and is ACTIVE, because otherwise drover cannot decide which server is the duplicate.
func (p *Project) Duplicates(now time.Time) (ids []string) {
	for uid, all := range p.Servers.byMachine {
		if len(all) < 2 {
			continue
		}
		m, known := p.machines.Get(uid)
		named := all[m.ServerID]
		if !known || m.Leaving || named == nil || !named.belongsTo(uid) || named.fate != present || named.Status != statusActive {
			continue
		}
		for _, k := range all {
			if k != named && p.Servers.isDuplicate(k, now) && (m.Joined || len(p.Addresses.ports[uid]) == 0 || named.hasPortsBeside(k)) {
				ids = append(ids, k.ID)
			}
		}
	}
	return ids
}

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
	add := func(kind cloud.ResourceKind, machine types.UID, n int, id string, since time.Time) {
		if len(found) < limit && now.Sub(since) >= RetainedFor && p.isIdle(machine) {
			found = append(found, Retained{p.cluster.Tag(kind, machine, n), id})
		}
	}
	for machine, ip := range p.Addresses.floating {
		add(cloud.ResourceFloatingIP, machine, 0, ip.ID, ip.Since)
	}
	for machine, all := range p.Addresses.ports {
		for n, port := range all {
			add(cloud.ResourcePort, machine, n, port.ID, port.Since)
		}
	}
	return found
}

// BeginRelease reports whether a retained port or floating IP may be deleted now: it is still the resource that drover uses for
// its owner tag, and the Machine does not need it. If BeginRelease returns true, nothing is created for the Machine until
// EndRelease.
func (p *Project) BeginRelease(r Retained) bool {
	if p.Addresses.idOf(r.Tag) != r.ID || !p.isIdle(r.Tag.Machine) {
		return false
	}
	p.used.Insert(r.Tag.Machine)
	return true
}

// EndRelease records whether the deletion of a retained port or floating IP succeeded, and allows creates for the Machine again.
func (p *Project) EndRelease(r Retained, released bool) {
	p.used.Delete(r.Tag.Machine)
	if released {
		p.Addresses.Forget(r.Tag, r.ID)
	}
}

// BeginMaking reserves the quota want for a Machine's missing resources, and protects its ports and floating IPs from being released
// until EndMaking. It returns Transient while a port or floating IP of the Machine is being released, or an earlier create of its server
// is in doubt, and Quota when there is not enough.
func (p *Project) BeginMaking(machine types.UID, want Amounts, now time.Time) error {
	if p.used.Has(machine) {
		return Unsettled("a port or floating IP that was retained for the server is being released")
	}
	if err := p.CloseCreate(p.serverTag(machine), now); err != nil {
		return err
	}
	if err := p.Quotas.reserve(machine, want, now); err != nil {
		return err
	}
	p.used.Insert(machine)
	return nil
}

// EndMaking allows the ports and floating IPs of the Machine to be released again.
func (p *Project) EndMaking(machine types.UID) { p.used.Delete(machine) }

// isIdle reports whether a Machine is registered, neither has nor names a server, and has no reserved quota, no create in doubt
// and no call in progress that uses its ports and floating IPs.
func (p *Project) isIdle(machine types.UID) bool {
	living, _ := p.Servers.ofMachine(machine)
	m, known := p.machines.Get(machine)
	_, reserved := p.Quotas.reserved[machine]
	return known && m.ServerID == "" && len(living) == 0 && !reserved && !p.used.Has(machine) && len(p.creates.of(machine)) == 0
}

// Adoptee returns the row of the server that the Machine must adopt. It reports whether that server exists and does not belong
// to the Machine yet.
func (p *Project) Adoptee(m *Machine) (ServerRow, bool) {
	k := p.Servers.byID[m.Adopts]
	if k == nil || k.fate != present || k.belongsTo(m.UID) {
		return ServerRow{}, false
	}
	return k.ServerRow, true
}

// Adopted is a port or floating IP of a server that is being adopted, with its old and its new owner tag. The field of the other kind is
// empty.
type Adopted struct {
	Was, Tag   Tag
	Port       Port
	FloatingIP FloatingIP
}

// AdoptedAddresses returns the ports and the floating IP of a server that is being adopted, the floating IP before its port. It returns
// none when the server already has the owner tag of its Machine.
func (p *Project) AdoptedAddresses(u Untagged) (all []Adopted) {
	if u.Was == "" || u.Was == u.Machine {
		return nil
	}
	add := func(kind cloud.ResourceKind, n int, a Adopted) {
		a.Was, a.Tag = p.cluster.Tag(kind, u.Was, n), p.cluster.Tag(kind, u.Machine, n)
		all = append(all, a)
	}
	ip := p.Addresses.floating[u.Was]
	for n, port := range p.Addresses.ports[u.Was] {
		if port.DeviceID != u.ID {
			continue
		}
		if ip.PortID == port.ID {
			add(cloud.ResourceFloatingIP, 0, Adopted{FloatingIP: ip})
		}
		add(cloud.ResourcePort, n, Adopted{Port: port})
	}
	return all
}

// Adopted records that the owner tag of a port or floating IP was written.
func (p *Project) Adopted(a Adopted, now time.Time) {
	p.Addresses.Forget(a.Was, a.Port.ID+a.FloatingIP.ID)
	if a.Tag.Kind == cloud.ResourceFloatingIP {
		p.SetFloatingIP(a.Tag, a.FloatingIP, now)
	} else {
		p.AddPort(a.Tag, a.Port, now)
	}
}

// Deletable returns the Machine's servers whose deletion may be requested now. Between two requests for the same server drover
// waits for a back-off (30 s, doubling to 5 min). If failedOnly is true, it returns only servers in ERROR or without their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool, now time.Time) (due []Deletion) {
	living, _ := p.Servers.ofMachine(machine)
	for _, k := range living {
		if (!failedOnly || k.failed()) && k.isDeletionDue(now) {
			due = append(due, Deletion{k.ID, k.times >= forceAfter})
		}
	}
	return due
}

// DeletionRequested records the result of a request to delete a server. The back-off before the next request begins only when the
// cloud accepted this request.
func (p *Project) DeletionRequested(serverID string, err error, now time.Time) {
	k := p.Servers.byID[serverID]
	switch {
	case k == nil:
	case err == nil:
		k.deletionRequested(now)
	case fault.Is(err, fault.NotFound) && k.fate == present:
		k.fate, k.fateAt = missing, now
	}
}

// GoneServers returns the IDs of the Machine's former servers, and the IDs of the volumes that were seen on these servers and are
// deleted together with their server. It does not return a server that only the Machine names.
func (p *Project) GoneServers(machine types.UID) (ids []string, volumes map[string]bool) {
	volumes = map[string]bool{}
	_, gone := p.Servers.ofMachine(machine)
	for _, k := range gone {
		if !k.belongsTo(machine) {
			continue
		}
		ids = append(ids, k.ID)
		for _, id := range k.ending {
			volumes[id] = true
		}
	}
	return ids, volumes
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone. A floating
// IP with an owner tag belongs to the Machine in the tag. A floating IP without an owner tag belongs to the Machine if the
// inventory has seen it on the Machine's own server, and if it is not on another port now. If it is on no port now, it also
// belongs to the Machine when recorded is true: then the Machine's status names the floating IP, and only drover can write that
// status.
func (p *Project) OwnsFloatingIP(m *Machine, ip *FloatingIP, recorded bool) bool {
	if tag, tagged := parseTag(cloud.ResourceFloatingIP, ip.Description); tagged {
		return tag.Cluster == string(p.cluster) && tag.Machine == m.UID
	}
	_, gone := p.Servers.ofMachine(m.UID)
	seen := p.Addresses.untagged[ip.ID]
	onOwn := slices.ContainsFunc(gone, func(k *server) bool { return k.ID == seen.ServerID && k.belongsTo(m.UID) })
	if ip.PortID != "" {
		return onOwn && seen.PortID == ip.PortID
	}
	return onOwn || recorded
}
