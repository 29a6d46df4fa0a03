package inventory

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// releases is how many retained ports and floating IPs are released between two lists.
const releases = 25

// retained is a port or floating IP that is kept for the next attempt to make the server of its Machine.
type retained struct {
	tag OwnerTag
	id  string
}

// use is what a call under way does with the ports and floating IPs of a Machine.
type use int

const (
	// unused: nothing.
	unused use = iota
	// making: something is made for the Machine, maybe on them.
	making
	// releasing: one of them is deleted.
	releasing
)

// releaseRetained deletes retained ports and floating IPs once a quota has been exhausted for two steps of the back-off (CAPI-22):
// others may need them, and the next attempt makes them again.
func (p *Project) releaseRetained(ctx context.Context, s *client.Session) {
	for _, k := range p.retainedTooLong() {
		if !p.beginRelease(k) {
			continue
		}
		err := s.Do(ctx, client.Call{Service: client.Network, Doing: fmt.Sprintf("releasing %s %s, kept for a server that may not be made", k.tag.Kind, k.id)},
			func(ctx context.Context, api *gophercloud.ServiceClient) error {
				if k.tag.Kind == FloatingIPKind {
					return floatingips.Delete(ctx, api, k.id).ExtractErr()
				}
				return ports.Delete(ctx, api, k.id).ExtractErr()
			})
		released := err == nil || fault.Is(err, fault.NotFound)
		p.endRelease(k, released)
		if !released {
			log.FromContext(ctx).Info("A retained port or floating IP cannot be released yet", "error", err.Error())
			return
		}
	}
}

// beginRelease reports whether a retained port or floating IP may be deleted now: it is still the one that is known, and its Machine
// has no use for it. If so, nothing is made for the Machine until endRelease.
func (p *Project) beginRelease(k retained) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.floating[k.tag.Machine].ID
	if k.tag.Kind == PortKind {
		id = p.ports[k.tag.Machine][k.tag.N].ID
	}
	if id != k.id || !p.idle(k.tag.Machine) {
		return false
	}
	p.uses[k.tag.Machine] = releasing
	return true
}

// endRelease notes whether the deletion succeeded.
func (p *Project) endRelease(k retained, released bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.uses, k.tag.Machine)
	switch {
	case !released:
	case k.tag.Kind == FloatingIPKind:
		delete(p.floating, k.tag.Machine)
	default:
		p.dropPort(k.tag.Machine, k.tag.N)
	}
}

// BeginMaking keeps the ports and floating IPs of a Machine from being released until end is called: the caller makes something for
// the Machine, and calls end once the answer is taken in. The error is Transient while one of them is being released.
func (p *Project) BeginMaking(machine types.UID) (end func(), err error) {
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
func (p *Project) idle(machine types.UID) bool {
	living, _ := p.servers.ofMachine(machine)
	_, promised := p.quota.taken[machine]
	m, known := p.machines.Get(machine)
	return known && m.ServerID == "" && len(living) == 0 && !promised && p.uses[machine] == unused && !p.hasAttempts(machine)
}

// retainedTooLong returns up to releases ports and floating IPs to be released, floating IPs first. A Machine that is not idle keeps
// what it has.
func (p *Project) retainedTooLong() []retained {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if !p.quota.exhausted(now) {
		return nil
	}
	var found []retained
	for machine, ip := range p.floating {
		if len(found) < releases && now.Sub(ip.since) >= RetainedFor && p.idle(machine) {
			found = append(found, retained{OwnerTag{FloatingIPKind, p.owners.cluster, machine, 0}, ip.ID})
		}
	}
	for machine, all := range p.ports {
		for n, port := range all {
			if len(found) < releases && now.Sub(port.since) >= RetainedFor && p.idle(machine) {
				found = append(found, retained{OwnerTag{PortKind, p.owners.cluster, machine, n}, port.ID})
			}
		}
	}
	return found
}
