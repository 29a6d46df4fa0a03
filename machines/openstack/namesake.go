package openstack

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
)

// A restored cluster has the Machines of old under new UIDs, and their servers bear UIDs that nobody has. The one whose ID
// a Machine names is that Machine's; so is, for a Machine that names none and has nothing yet, the one that bears its name
// (design §3). Such a server counts as the Machine's from now on, and is marked with the next list (adopt.go).

// namesake gives the server that bears the Machine's name and our cluster's mark with the UID of a Machine that has not
// asked for anything, and that UID; empty: none. The caller holds the lock.
func (p *project) namesake(s *subject) (id string, owner types.UID) {
	for m, a := range p.attempts {
		if m.machine == s.uid && !a.suspected {
			return "", ""
		}
	}
	var found []*knownServer
	for _, id := range p.inventory.byName[s.server] {
		if k := p.inventory.servers[id]; p.isStray(k) && p.boundTo(s.uid, id) {
			found = append(found, k)
		}
	}
	if k := choose(found, ""); k != nil {
		return k.ID, k.machine()
	}
	return "", ""
}

// isStray tells whether a server lives and works, and is of this cluster, but of no Machine that has asked so far; the
// caller holds the lock.
func (p *project) isStray(k *knownServer) bool {
	return !k.gone && !k.missing && k.asked.IsZero() && k.Status != statusError && k.TaskState != taskDeleting &&
		k.Metadata[metadataClusterID] == p.clusterID && k.machine() != "" && !p.wanted(k.machine())
}

// boundTo tells whether the Machine has no port but those that a server has; the caller holds the lock.
func (p *project) boundTo(machine types.UID, server string) bool {
	for _, port := range p.ports[machine] {
		if port.serverID != server {
			return false
		}
	}
	return true
}

// claim makes a stray server the Machine's, unless the Machine whose mark it bears is still there: it may just not have
// been looked at since the start.
func (i *instance) claim(ctx context.Context, p *project, server string, owner types.UID) error {
	if p.there == nil {
		return nil
	}
	there, err := p.there(ctx, owner)
	if err != nil {
		return fault.New(fault.Transient, fault.CodeUnsettled, "listing the Machines to learn whose server %s is: %v", server, err)
	}
	if there {
		return nil
	}
	p.kick()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inventory.claim(server, owner, i.subject.uid) {
		log.FromContext(ctx).Info("a server of this name bore the mark of a Machine that is no more; it is taken over", "server", server, "machineUID", owner)
	}
	return nil
}

// claim says that a server is another Machine's than its mark says; false when it has changed meanwhile.
func (inv *inventory) claim(id string, from, to types.UID) bool {
	k := inv.servers[id]
	if k == nil || k.gone || k.machine() != from {
		return false
	}
	inv.unindex(k)
	k.claimed = to
	inv.index(k)
	return true
}
