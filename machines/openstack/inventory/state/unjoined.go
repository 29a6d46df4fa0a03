package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	for uid := range p.Servers.indexed() {
		if m, known := p.machines.Get(uid); !known || m.Joined || m.Leaving {
			continue
		}
		ids, before := p.Addresses.portIDs(uid), len(due)
		if len(ids) == 0 {
			continue
		}
		for k := range p.Servers.indexedUnder(uid) {
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
func (p *Project) Detach(due []Unjoined, rows []PortRow, now time.Time) (machines []types.UID) {
	bound := make(map[string]string, len(rows))
	for i := range rows {
		bound[rows[i].ID] = rows[i].DeviceID
	}
	for _, d := range due {
		k, all := p.Servers.get(d.Server), p.Addresses.portIDs(d.Machine)
		if k == nil || len(all) == 0 {
			continue
		}
		k.notePortsLooked(now)
		lost := p.Addresses.bind(d.Machine, bound, d.Server)
		if len(lost) < len(all) {
			continue
		}
		k.detached = fmt.Sprintf("server %s is ACTIVE without a network: port %s is no longer bound to it, as happens when two servers are created on one port; drover replaces the server",
			d.Server, strings.Join(lost, ", "))
		p.Addresses.setNamedByCreate(d.Machine)
		machines = append(machines, d.Machine)
	}
	return machines
}

// Duplicates returns the servers that must be deleted now because a create with an unknown outcome succeeded late, when its Machine
// already had another server. It does not return the server that the Machine names.
func (p *Project) Duplicates(now time.Time) (ids []string) {
	for uid := range p.Servers.indexed() {
		if !p.Servers.hasSeveral(uid) {
			continue
		}
		m, known := p.machines.Get(uid)
		if !known || m.Leaving {
			continue
		}
		named, duplicates := p.Servers.duplicates(uid, m.ServerID, now)
		for _, k := range duplicates {
			if m.Joined || len(p.Addresses.portIDs(uid)) == 0 || named.hasPortsBeside(k) {
				ids = append(ids, k.ID)
			}
		}
	}
	return ids
}
