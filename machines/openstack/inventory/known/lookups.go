package known

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// InDoubt returns the ID of a server of the Machine that must be asked for by its ID, or an empty string. required is false
// when the server is only in ERROR and no list says why: without an answer it is in ERROR all the same.
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

// doubtful returns the ID of a server whose existence a GET must settle, or an empty string. The first of these counts:
//   - a server of the Machine that the last complete list lacked;
//   - the server that spec.providerID names, when no list has shown it or the last complete list lacked it;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server that the mass-deletion guard holds. Before the first look of this process is done it returns none at all: that
// look asks for the servers that the first list lacks.
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
	if p.Guard.Holds(id) || !p.Guard.IsReady() {
		return ""
	}
	return id
}

// LookedUp takes in the answer to a GET by a server's ID that was made for a Machine. The answer 404 proves that the server is gone.
// It reports whether there is something new to be stored for the mass-deletion guard. Other errors change nothing.
func (p *Project) LookedUp(m *owner.Machine, serverID string, found *servers.Row, err error, now time.Time) (toStore bool) {
	switch {
	case fault.Is(err, fault.NotFound):
		known := p.Servers.ByID(serverID) != nil
		p.Servers.MarkGone(serverID, m.UID, now)
		if !known && serverID != m.ServerID {
			// The server is known only from a port; no Machine ever recorded it, so losing it is not a loss.
			p.Servers.ByID(serverID).Wanted = true
		}
		return p.CountLosses(now)
	case err != nil:
		return false
	}
	p.Servers.Merge(*found, now)
	if k := p.Servers.ByID(serverID); k != nil {
		k.Explain()
		p.failedQuotas([]string{serverID}, now)
	}
	return false
}

// IsFirstLookDue reports whether the servers that Machines name are still to be compared with the first complete list.
func (p *Project) IsFirstLookDue() bool { return !p.Guard.IsReady() && p.fulls > 0 }

// Unlisted returns those of the servers that Machines name, given with their Machines, that are not known or missing. When they are
// too many, the mass-deletion guard holds them and none is returned.
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

// FirstLooked takes in the answer to a GET by the ID of a server that a Machine names. Only 404 is a loss; without an answer the server
// stays missing, which counts too.
func (p *Project) FirstLooked(machine types.UID, serverID string, found *servers.Row, err error, now time.Time) {
	switch {
	case err == nil:
		p.Servers.Merge(*found, now)
	case fault.Is(err, fault.NotFound):
		p.Servers.MarkGone(serverID, machine, now)
	}
}
