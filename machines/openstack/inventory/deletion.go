package inventory

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
)

// forceAfter is how often a deletion is requested politely: from the fourth time on (3.5 min after the first) Nova is told
// to delete the server whatever it is doing.
const forceAfter = 3

// Deletion is a server whose deletion is to be requested now. Force is true when polite requests had no effect.
type Deletion struct {
	ServerID string
	Force    bool
}

// Deletable returns the Machine's servers whose deletion may be requested now: each at most once per back-off (30 s, doubling to
// 5 min). With failedOnly only those that are in ERROR or have lost their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool) []Deletion {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.servers.ofMachine(machine)
	now := p.clock.Now()
	var turn []Deletion
	for _, k := range living {
		if (!failedOnly || k.failed()) && (k.asked.IsZero() || now.Sub(k.asked) >= deleteBackoff(k.times)) {
			turn = append(turn, Deletion{k.ID, k.times >= forceAfter})
		}
	}
	return turn
}

// DeletionRequested notes the outcome of a request to delete a server. The back-off begins only when the request was accepted.
func (p *Project) DeletionRequested(serverID string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.servers.byID[serverID]
	switch {
	case !ok:
	case err == nil:
		k.asked = p.clock.Now()
		if k.times++; k.firstAsked.IsZero() {
			k.firstAsked = k.asked
		}
	case fault.Is(err, fault.NotFound):
		k.missing = true
	}
}

// deleteBackoff returns the time between two requests to delete the same server.
func deleteBackoff(times int) time.Duration {
	wait := 30 * time.Second
	for range min(times, 5) - 1 {
		wait *= 2
	}
	return min(wait, 5*time.Minute)
}

// IsLossHeld reports whether the mass guard does not believe that the Machine's server is gone.
func (p *Project) IsLossHeld(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, gone := p.servers.ofMachine(machine)
	return slices.ContainsFunc(gone, func(k *knownServer) bool { return p.guard.held[k.ID] })
}

// GoneServers returns the IDs of the servers that belonged to the Machine and are gone, and the IDs of the volumes that were seen
// on them and end with them. A server that only the Machine names is not among them.
func (p *Project) GoneServers(machine types.UID) (servers []string, volumes map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	volumes = map[string]bool{}
	_, gone := p.servers.ofMachine(machine)
	for _, k := range gone {
		if !k.belongs(machine) {
			continue
		}
		servers = append(servers, k.ID)
		for _, id := range k.volumes {
			volumes[id] = true
		}
	}
	return servers, volumes
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone: it has the
// Machine's owner tag, or no owner tag and was on the Machine's own server. The inventory has seen it there, or recorded is true: the
// Machine's record says so, and only drover can write that. A floating IP that is on another port now is not the Machine's any
// more.
func (p *Project) OwnsFloatingIP(m *Machine, ip *FloatingIPRow, recorded bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners.address(m, FloatingIPKind, ip.Description, p.wasOnOwn(m.UID, ip, recorded)) == mine
}

// wasOnOwn reports whether a floating IP was on the Machine's own server. The caller holds the lock.
func (p *Project) wasOnOwn(machine types.UID, ip *FloatingIPRow, recorded bool) bool {
	_, gone := p.servers.ofMachine(machine)
	seen := p.seenIPs[ip.ID]
	onOwn := slices.ContainsFunc(gone, func(k *knownServer) bool { return k.ID == seen.serverID && k.belongs(machine) })
	if ip.PortID != "" {
		return onOwn && seen.portID == ip.PortID
	}
	return onOwn || recorded
}
