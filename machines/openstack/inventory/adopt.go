package inventory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

const (
	// adoptions is how many servers are tagged between two lists: a cluster that is taken over must not wait for them. When
	// there are more, the next list comes soon.
	adoptions = 25
	// AdoptAgain is how long tags that could not be written are left alone.
	AdoptAgain = 10 * time.Minute
)

// Adopt makes the server that an operator lets the Machine take over the Machine's, when it may be; otherwise it sets m.Refusal.
// The server is tagged with the next list. Transient while it is not known whether the server has another owner.
func (p *Project) Adopt(ctx context.Context, m *Machine) error {
	of, present := p.adoptee(m)
	if !present {
		return nil
	}
	answer, reason := p.owners.server(m, of, p.existence(ctx, of.machine))
	m.Refusal = reason
	switch answer {
	case undecided:
		return fault.New(fault.Transient, fault.CodeUnsettled, "%s", reason)
	case adoptable:
		if p.claim(of, m.UID) {
			log.FromContext(ctx).Info("Adopting server by the operator's annotation", "server", of.id, "machineUID", m.UID, "formerMachineUID", of.machine)
			p.Kick()
		}
	}
	return nil
}

// adoptee returns the tags of the server that the Machine is to adopt, and reports whether there is one that exists and is not
// the Machine's yet.
func (p *Project) adoptee(m *Machine) (serverTags, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.servers.byID[m.Adopts]
	if k == nil || k.gone || k.missing || k.belongs(m.UID) {
		return serverTags{}, false
	}
	return k.tags(), true
}

// claim notes that a Machine adopts a server. It reports false when the server's tags have changed since they were read.
func (p *Project) claim(of serverTags, by types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers.claim(of.id, of.machine, by)
}

// existence reports whether a Machine with that UID exists, in any namespace.
func (p *Project) existence(ctx context.Context, uid types.UID) existence {
	if p.knows(uid) {
		return exists
	}
	if p.reader == nil {
		return existenceUnknown
	}
	all := &v1alpha1.MachineList{}
	if err := p.reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return existenceUnknown
	}
	for n := range all.Items {
		if all.Items[n].UID == uid {
			return exists
		}
	}
	return existsNot
}

// untagged is a server that belongs to a Machine and lacks one of its two tags. was is the Machine that its machine-uid names; it is
// another one when the server is being adopted.
type untagged struct {
	id           string
	machine, was types.UID
}

// tagServers writes both tags onto servers that belong to a Machine and lack one: those that machine-controller made have no cluster
// ID, and those that an operator lets a Machine adopt have another Machine's UID. Only then may the collector ever consider them.
// The ports and the floating IP of a server are tagged first, since they are found by the old tag.
func (p *Project) tagServers(ctx context.Context, s *client.Session) {
	for _, u := range p.untagged() {
		if err := p.adoptAddresses(ctx, s, u); err != nil {
			log.FromContext(ctx).Info("what is on a server cannot be marked yet", "server", u.id, "error", err.Error())
			continue
		}
		marks := servers.MetadataOpts{MetadataMachineUID: string(u.machine), MetadataClusterID: p.owners.cluster}
		asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("marking server %s as Machine %s", u.id, u.machine)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return servers.UpdateMetadata(ctx, api, u.id, marks).Err
		})
		if err != nil {
			log.FromContext(ctx).Info("a server cannot be marked yet", "server", u.id, "error", err.Error())
			continue
		}
		p.mu.Lock()
		p.servers.setMetadata(u.id, marks)
		p.mu.Unlock()
	}
}

// adoptAddresses writes the Machine's owner tag onto the ports and the floating IP of a server that is being adopted.
func (p *Project) adoptAddresses(ctx context.Context, s *client.Session, u untagged) error {
	if u.was == "" || u.was == u.machine {
		return nil
	}
	ip, hasIP := p.FloatingIPOf(u.was)
	for n, port := range p.PortsOf(u.was) {
		if port.ServerID != u.id {
			continue
		}
		m := OwnerTag{PortKind, p.owners.cluster, u.machine, n}
		if hasIP && ip.PortID == port.ID {
			if err := p.adoptIP(ctx, s, ip, OwnerTag{FloatingIPKind, p.owners.cluster, u.machine, 0}); err != nil {
				return err
			}
			p.ForgetFloatingIP(u.was)
		}
		asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("marking port %s as Machine %s", port.ID, u.machine)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return ports.Update(ctx, api, port.ID, ports.UpdateOpts{Description: new(m.String())}).Err
		})
		if err != nil {
			return err
		}
		p.ForgetPort(u.was, n, port.ID)
		p.mu.Lock()
		p.setPort(m, port)
		p.mu.Unlock()
	}
	return nil
}

// adoptIP writes an owner tag onto a floating IP. port_id is sent as well, because Neutron disassociates a floating IP that is
// updated without it.
func (p *Project) adoptIP(ctx context.Context, s *client.Session, ip FloatingIP, tag OwnerTag) error {
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("marking floating IP %s as Machine %s", ip.Address, tag.Machine)}
	err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{Description: new(tag.String()), PortID: &ip.PortID}).Err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setFloatingIP(tag, ip)
	return nil
}

// untagged returns up to adoptions servers to be tagged, and notes that it was tried.
func (p *Project) untagged() []untagged {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var found []untagged
	for id, k := range p.servers.byID {
		if len(found) == adoptions {
			p.Kick()
			break
		}
		if k.gone || k.missing || !k.adopted.IsZero() && now.Sub(k.adopted) < AdoptAgain {
			continue
		}
		if k.claimed != "" || k.owner != "" && k.tags().cluster == "" && p.knows(k.owner) {
			k.adopted = now
			found = append(found, untagged{id: id, machine: cmp.Or(k.claimed, k.owner), was: k.tags().machine})
		}
	}
	return found
}

// claim notes that a Machine adopts a server whose tags name another one. It reports false when the tags have changed
// meanwhile.
func (c *serverCache) claim(id string, from, to types.UID) bool {
	k := c.byID[id]
	if k == nil || k.gone || k.missing || k.tags().machine != from {
		return false
	}
	c.unindex(k)
	k.claimed = to
	c.index(k)
	return true
}

// setMetadata notes that metadata was written.
func (c *serverCache) setMetadata(id string, metadata map[string]string) {
	k, ok := c.byID[id]
	if !ok {
		return
	}
	r := k.row
	r.Metadata = make(map[string]string, len(k.Metadata)+len(metadata))
	for _, m := range []map[string]string{k.Metadata, metadata} {
		for key, value := range m {
			r.Metadata[key] = value
		}
	}
	c.update(k, r, k.since)
}
