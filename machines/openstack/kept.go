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

// use says what is done with the ports and floating IPs of a Machine at this moment.
type use int

const (
	// unused: nothing.
	unused use = iota
	// making: something is made for the Machine, maybe on them.
	making
	// releasing: one of them is deleted.
	releasing
)

// releaseKept deletes ports and floating IPs that were kept for the next try of a Machine, once a quota has been exhausted
// for two steps of the back-off (CAPI-22): others may need them, and the next try makes them again.
func (p *project) releaseKept(ctx context.Context, s *client.Session) {
	for _, k := range p.keptTooLong() {
		if !p.beginRelease(k) {
			continue
		}
		err := s.Do(ctx, client.Call{Service: client.Network, Doing: fmt.Sprintf("releasing %s %s, kept for a server that may not be made", k.mark.Kind, k.id)},
			func(ctx context.Context, api *gophercloud.ServiceClient) error {
				if k.mark.Kind == floatingKind {
					return floatingips.Delete(ctx, api, k.id).ExtractErr()
				}
				return ports.Delete(ctx, api, k.id).ExtractErr()
			})
		released := err == nil || fault.Is(err, fault.NotFound)
		p.endRelease(k, released)
		if !released {
			log.FromContext(ctx).Info("what was kept cannot be released yet", "error", err.Error())
			return
		}
	}
}

// beginRelease looks again, right before a kept thing is deleted, whether it is still the one that is known and its Machine
// has no use for it. If so, nothing is made for the Machine until endRelease.
func (p *project) beginRelease(k kept) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.floating[k.mark.Machine].ID
	if k.mark.Kind == portKind {
		id = p.ports[k.mark.Machine][k.mark.N].ID
	}
	if id != k.id || !p.idle(k.mark.Machine) {
		return false
	}
	p.uses[k.mark.Machine] = releasing
	return true
}

// endRelease takes in the outcome of a release.
func (p *project) endRelease(k kept, released bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.uses, k.mark.Machine)
	switch {
	case !released:
	case k.mark.Kind == floatingKind:
		delete(p.floating, k.mark.Machine)
	default:
		p.dropPort(k.mark.Machine, k.mark.N)
	}
}

// beginMaking keeps what a Machine has from being released while something is made for it, until the returned function is
// called: neither while the cloud works on it nor before its answer is taken in. Transient while something is released.
func (p *project) BeginMaking(machine types.UID) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uses[machine] == releasing {
		return nil, unsettled("a port or floating IP that was kept for the server is being released")
	}
	p.uses[machine] = making
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.uses, machine)
	}, nil
}

// idle reports whether a Machine has no server, and nothing of it is being made, expected or promised. The caller holds the
// lock.
func (p *project) idle(machine types.UID) bool {
	living, _ := p.inventory.ofMachine(machine)
	_, promised := p.quota.taken[machine]
	m, known := p.machines.Get(machine)
	return known && m.ServerID == "" && len(living) == 0 && !promised && p.uses[machine] == unused && !p.hasAttempt(machine)
}

// keptTooLong returns some of what is to be released, floating IPs first. A Machine that is not idle keeps what it has.
func (p *project) keptTooLong() []kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if !p.quota.exhausted(now) {
		return nil
	}
	var found []kept
	for machine, ip := range p.floating {
		if len(found) < releases && now.Sub(ip.since) >= keptFor && p.idle(machine) {
			found = append(found, kept{mark{floatingKind, p.owners.cluster, machine, 0}, ip.ID})
		}
	}
	for machine, all := range p.ports {
		for n, port := range all {
			if len(found) < releases && now.Sub(port.since) >= keptFor && p.idle(machine) {
				found = append(found, kept{mark{portKind, p.owners.cluster, machine, n}, port.ID})
			}
		}
	}
	return found
}

// hasAttempt reports whether a create of the Machine is not settled; the caller holds the lock.
func (p *project) hasAttempt(machine types.UID) bool {
	for m := range p.attempts {
		if m.Machine == machine {
			return true
		}
	}
	return false
}
