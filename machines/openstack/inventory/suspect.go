package inventory

import (
	"context"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/openstack/client"
)

const (
	// SuspectTime is how long after the start the second look is taken. The previous leader has sent nothing since we hold the
	// lease: by the second look the cloud has usually worked off what was under way, and a server that no list shows yet has its
	// port bound to it. An order that arrives even later names a port that was replaced.
	SuspectTime = 3 * time.Second
	// portsAtOnce is how many ports are asked for by one call: their IDs stand in its URL.
	portsAtOnce = 100
)

// suspectAttempts opens a create for every port without a server that the first lists show: the previous leader may have died
// between ordering the server and reading the answer, and lists may lag. When the ports were listed late enough, the list of
// servers after them is the second look already. The caller holds the lock.
func (p *Project) suspectAttempts() {
	if p.listedOwned.Sub(p.began) >= SuspectTime {
		return
	}
	for machine := range p.ports {
		if living, gone := p.servers.ofMachine(machine); len(living)+len(gone) > 0 {
			continue
		}
		if m, known := p.machines.Get(machine); known && m.ServerID != "" {
			continue
		}
		m := OwnerTag{ServerKind, p.owners.cluster, machine, 0}
		if _, open := p.attempts[m]; !open {
			p.attempts[m] = attempt{ended: p.began, fulls: p.fulls, suspected: true}
		}
	}
}

// suspects returns the IDs of the ports of suspected creates, and reports whether the second look at them is due. The caller holds
// the lock.
func (p *Project) suspects(now time.Time) (ports []string, due bool) {
	for m, a := range p.attempts {
		if !a.suspected {
			continue
		}
		due = now.Sub(a.ended) >= SuspectTime
		for _, port := range p.ports[m.Machine] {
			ports = append(ports, port.ID)
		}
	}
	slices.Sort(ports)
	return ports, due
}

// suspected reports whether the previous leader may have ordered a server for the Machine: until the second look nothing may be
// concluded from its absence. The caller holds the lock.
func (p *Project) suspected(machine types.UID) bool {
	return p.attempts[OwnerTag{ServerKind, p.owners.cluster, machine, 0}].suspected
}

// untilSuspects shortens the time to the next list while something is suspected: that list is the second look. The caller
// holds the lock.
func (p *Project) untilSuspects(now time.Time, next time.Duration) time.Duration {
	for _, a := range p.attempts {
		if left := a.ended.Add(SuspectTime).Sub(now); a.suspected && left > 0 {
			return min(next, left)
		}
	}
	return next
}

// lookAtPorts reads again which servers these ports are bound to, which does not lag as a list of servers may. It reports whether
// all ports have been read.
func (p *Project) lookAtPorts(ctx context.Context, s *client.Session, ids []string) bool {
	var rows []PortRow
	for some := range slices.Chunk(ids, portsAtOnce) {
		more, err := client.List[PortRow](ctx, s, PortListing(url.Values{"id": some, "fields": portFields}))
		if err != nil {
			log.FromContext(ctx).Info("ports without a server cannot be looked at yet", "ports", len(ids), "error", err.Error())
			return false
		}
		rows = append(rows, more...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rows {
		if m, ok := p.owners.tag(PortKind, rows[i].Description); ok {
			p.setPort(m, rows[i].owned())
		}
	}
	return true
}

// clearSuspects closes all suspected creates after the second look, and returns the Machines that may go on. A server that the
// look found on a port is returned by boundServer. The caller holds the lock.
func (p *Project) clearSuspects() (cleared []types.UID) {
	for m, a := range p.attempts {
		if a.suspected {
			delete(p.attempts, m)
			cleared = append(cleared, m.Machine)
		}
	}
	return cleared
}

// boundServer returns the ID of the server that one of the Machine's ports is bound to and that no list has shown; empty: none. The
// caller holds the lock.
func (p *Project) boundServer(machine types.UID) string {
	for _, port := range p.ports[machine] {
		if port.ServerID != "" && p.servers.byID[port.ServerID] == nil {
			return port.ServerID
		}
	}
	return ""
}
