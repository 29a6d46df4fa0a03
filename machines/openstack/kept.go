package openstack

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
)

// releases is how many kept things are released between two lists.
const releases = 25

// kept is a port or floating IP of a Machine without a server.
type kept struct {
	mark mark
	id   string
}

// releaseKept deletes ports and floating IPs that were kept for the next try of a Machine, once a quota has been exhausted
// for two steps of the back-off (CAPI-22): others may need them, and the next try makes them again.
func (p *project) releaseKept(ctx context.Context, s *client.Session) {
	for _, k := range p.keptTooLong() {
		err := s.Do(ctx, client.Call{Service: client.Network, Doing: fmt.Sprintf("releasing %s %s, kept for a server that may not be made", k.mark.kind, k.id)},
			func(ctx context.Context, api *gophercloud.ServiceClient) error {
				if k.mark.kind == floatingKind {
					return floatingips.Delete(ctx, api, k.id).ExtractErr()
				}
				return ports.Delete(ctx, api, k.id).ExtractErr()
			})
		if err != nil && !fault.Is(err, fault.NotFound) {
			log.FromContext(ctx).Info("what was kept cannot be released yet", "error", err.Error())
			return
		}
		p.forget(k.mark)
	}
}

func (p *project) forget(m mark) {
	if m.kind == floatingKind {
		p.forgetIP(m.machine)
		return
	}
	p.forgetPort(m.machine, m.n)
}

// keptTooLong gives some of what is to be released, floating IPs first. A Machine with a server, an open attempt or a
// promise keeps what it has.
func (p *project) keptTooLong() []kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if !p.quota.exhausted(now) {
		return nil
	}
	idle := func(machine types.UID) bool {
		living, _ := p.inventory.ofMachine(machine, "")
		_, promised := p.quota.taken[machine]
		i, known := p.registry.get(machine)
		return known && i.serverID == "" && len(living) == 0 && !promised && !p.hasAttempt(machine)
	}
	var found []kept
	for machine, ip := range p.floating {
		if len(found) < releases && now.Sub(ip.since) >= keptFor && idle(machine) {
			found = append(found, kept{mark{floatingKind, p.clusterID, machine, 0}, ip.id})
		}
	}
	for machine, all := range p.ports {
		for n, port := range all {
			if len(found) < releases && now.Sub(port.since) >= keptFor && idle(machine) {
				found = append(found, kept{mark{portKind, p.clusterID, machine, n}, port.id})
			}
		}
	}
	return found
}

// hasAttempt tells whether a create of the Machine is not settled; the caller holds the lock.
func (p *project) hasAttempt(machine types.UID) bool {
	for m := range p.attempts {
		if m.machine == machine {
			return true
		}
	}
	return false
}
