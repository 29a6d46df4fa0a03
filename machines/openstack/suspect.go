package openstack

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// suspectAttempts takes every port without a server that the first lists show for a server that may be on its way: whoever
// was here before may have died between asking for the server and hearing of it, and lists may lag. It is looked for a
// little before another is made. The caller holds the lock.
func (p *project) suspectAttempts(now time.Time) {
	for machine := range p.ports {
		if living, gone := p.inventory.ofMachine(machine, ""); len(living)+len(gone) > 0 {
			continue
		}
		if i, known := p.registry.get(machine); known && i.serverID != "" {
			continue
		}
		m := mark{serverKind, p.clusterID, machine, 0}
		if _, open := p.attempts[m]; !open {
			p.attempts[m] = attempt{ended: now, fulls: p.fulls, suspected: true}
		}
	}
}

// boundServer gives the server that one of the Machine's ports is bound to and that no list has shown; empty: none. The
// caller holds the lock.
func (p *project) boundServer(machine types.UID) string {
	for _, port := range p.ports[machine] {
		if port.serverID != "" && p.inventory.servers[port.serverID] == nil {
			return port.serverID
		}
	}
	return ""
}
