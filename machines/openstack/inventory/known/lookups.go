package known

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// InDoubt returns the ID of a server of the Machine that drover must look up by its ID; empty when there is none. required is
// false when the server is in ERROR and only the reason is unknown: even if the look-up fails, the state of the server is known.
func (p *Project) InDoubt(m *owner.Machine) (serverID string, required bool) {
	living, _ := p.Servers.OfMachine(m.UID)
	if id := p.doubtful(m, living); id != "" {
		return id, true
	}
	if failed := slices.IndexFunc(living, (*servers.Known).Unexplained); failed >= 0 {
		return living[failed].ID, false
	}
	return "", false
}

// doubtful returns the ID of a server whose existence a GET must prove; empty when there is none. It returns the first of these:
//   - a server of the Machine that was missing from the last complete list;
//   - the server that spec.providerID names, when no list has shown it or it was missing from the last complete list;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server that the mass-deletion guard holds, unless the Machine is being deleted. It returns no server at all until
// this process has looked up the servers that Machines name and that are missing from its first list.
func (p *Project) doubtful(m *owner.Machine, living []*servers.Known) string {
	id := ""
	for _, k := range living {
		if k.Missing {
			id = k.ID
		}
	}
	if k := p.Servers.ByID(m.ServerID); id == "" && (k == nil || k.Missing) {
		id = m.ServerID
	}
	if id == "" && len(living) == 0 {
		id = p.boundServer(m.UID)
	}
	if p.Guard.Holds(id) && !m.Leaving || !p.Guard.IsReady() {
		return ""
	}
	return id
}

// LookedUp records the answer to a GET of a server that was made for a Machine. A 404 proves that the server is gone; other errors
// change nothing. It reports whether the mass-deletion guard has a new state to store.
func (p *Project) LookedUp(m *owner.Machine, serverID string, found *servers.Row, err error, now time.Time) (toStore bool) {
	switch {
	case fault.Is(err, fault.NotFound):
		known := p.Servers.ByID(serverID) != nil
		p.Servers.MarkGone(serverID, m.UID, now)
		if !known && serverID != m.ServerID {
			// Only a port showed that the server existed, and no Machine recorded it, so its absence is not a loss.
			p.Servers.ByID(serverID).Wanted = true
		}
		return p.CountLosses(now)
	case err != nil:
		return false
	}
	p.Servers.Merge(*found, now)
	if k := p.Servers.ByID(serverID); k != nil {
		k.Explain()
		p.readFaults([]string{serverID}, now)
	}
	return false
}

// IsFirstLookDue reports whether a complete list exists, and those servers that Machines name and that the list lacks have not all
// been looked up yet.
func (p *Project) IsFirstLookDue() bool { return !p.Guard.IsReady() && p.fulls > 0 }

// Unlisted returns those servers that Machines name and that no list has shown, or that the last complete list lacked. named maps
// the IDs of the servers that Machines name to these Machines. When too many of them are missing, the mass-deletion guard holds
// them, and Unlisted returns none.
func (p *Project) Unlisted(named map[string]types.UID, now time.Time) (ids []string) {
	for id, machine := range named {
		p.Servers.Expect(id, machine, now)
		if p.Servers.ByID(id).Missing {
			ids = append(ids, id)
		}
	}
	p.CountLosses(now)
	if p.Guard.Held() > 0 {
		return nil
	}
	return ids
}

// FirstLooked records the answer to a GET of a server that a Machine names. The server counts as gone only after a 404. When the
// GET fails with another error, the server stays missing. The mass-deletion guard counts missing servers like those that are gone.
func (p *Project) FirstLooked(machine types.UID, serverID string, found *servers.Row, err error, now time.Time) {
	switch {
	case err == nil:
		p.Servers.Merge(*found, now)
	case fault.Is(err, fault.NotFound):
		p.Servers.MarkGone(serverID, machine, now)
	}
}
