package state

import (
	"slices"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

// InDoubt returns the ID of a server of the Machine that drover must look up by its ID; empty when there is none. required is
// false when the server is in ERROR and only the reason is unknown: even if the look-up fails, the state of the server is known.
func (p *Project) InDoubt(m *Machine) (serverID string, required bool) {
	living, _ := p.Servers.ofMachine(m.UID)
	if id := p.doubtful(m, living); id != "" {
		return id, true
	}
	if failed := slices.IndexFunc(living, (*server).unexplained); failed >= 0 {
		return living[failed].ID, false
	}
	return "", false
}

// doubtful returns the ID of a server whose existence a GET must prove; empty when there is none. It returns the first of these:
//   - a server of the Machine that was missing from the last complete list;
//   - the server that spec.providerID names, when no list has shown it or it was missing from the last complete list;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server before the first complete list. While too many servers are lost at once, it returns none of a Machine with a Ready Node,
// because the answer would change nothing, and a failed cell of a cloud would get a request for each of its servers again and again.
func (p *Project) doubtful(m *Machine, living []*server) string {
	id := ""
	for _, k := range living {
		if k.missing {
			id = k.ID
		}
	}
	if k := p.Servers.get(m.ServerID); id == "" && (k == nil || k.missing) {
		id = m.ServerID
	}
	if id == "" && len(living) == 0 {
		id = p.boundServer(m.UID)
	}
	if id == "" || p.fulls == 0 || m.Ready && mayHaveLost(m) && p.Held() != "" {
		return ""
	}
	return id
}

// LookedUp records the answer to a GET of a server that was made for a Machine. A 404 proves that the server is gone; other errors
// change nothing.
func (p *Project) LookedUp(m *Machine, serverID string, found *ServerRow, err error, now time.Time) {
	switch {
	case fault.Is(err, fault.NotFound):
		p.Servers.markGone(serverID, m.UID, now)
		return
	case err != nil:
		return
	}
	p.Servers.merge(*found, now)
	if k := p.Servers.get(serverID); k != nil {
		k.explain()
		p.readFaults([]string{serverID}, now)
	}
}
