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
	// adoptions is how many servers are marked between two lists: a cluster that is taken over must not wait for them. When
	// there are more, the next list comes soon.
	adoptions = 25
	// AdoptAgain is how long a mark that could not be written is left alone.
	AdoptAgain = 10 * time.Minute
)

// Adopt makes the server that an operator lets the Machine take over the Machine's, when it may be; otherwise it sets m.Refusal.
// The server is marked with the next list. Transient while it is not known whether the server has another owner.
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
func (p *Project) adoptee(m *Machine) (tags, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.servers.byID[m.Adopts]
	if k == nil || k.gone || k.missing || k.belongs(m.UID) {
		return tags{}, false
	}
	return k.tags(), true
}

// claim notes that a Machine adopts a server. It reports false when the server's tags have changed since they were read.
func (p *Project) claim(of tags, by types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers.claim(of.id, of.machine, by)
}

// existence reports whether a Machine with that UID exists, in any namespace.
func (p *Project) existence(ctx context.Context, uid types.UID) existence {
	if p.wanted(uid) {
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

// unmarked is a server that belongs to a Machine and lacks one of the two marks. was is the Machine that its own mark
// names; it is another one when the server is being adopted.
type unmarked struct {
	id           string
	machine, was types.UID
}

// tagServers writes the marks onto servers that belong to a Machine and lack one: those that machine-controller made have no
// cluster ID, and those that an operator lets a Machine adopt have another Machine's UID. Only then may the collector ever
// consider them. What is on a server is marked first, since it is found by the old mark.
func (p *Project) tagServers(ctx context.Context, s *client.Session) {
	for _, u := range p.unmarked() {
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
		p.servers.mark(u.id, marks)
		p.mu.Unlock()
	}
}

// adoptAddresses writes the Machine's mark onto the ports and the floating IP of a server that is being adopted.
func (p *Project) adoptAddresses(ctx context.Context, s *client.Session, u unmarked) error {
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
		p.ForgetPort(u.was, n)
		p.mu.Lock()
		p.keepPort(m, port)
		p.mu.Unlock()
	}
	return nil
}

// adoptIP writes a mark onto a floating IP. port_id is sent as well, because Neutron disassociates a floating IP that is
// updated without it.
func (p *Project) adoptIP(ctx context.Context, s *client.Session, ip FloatingIP, m OwnerTag) error {
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("marking floating IP %s as Machine %s", ip.Address, m.Machine)}
	err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{Description: new(m.String()), PortID: &ip.PortID}).Err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepIP(m, ip)
	return nil
}

// unmarked returns some of the servers to be marked, and notes that it was tried.
func (p *Project) unmarked() []unmarked {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var found []unmarked
	for id, k := range p.servers.byID {
		if len(found) == adoptions {
			p.Kick()
			break
		}
		if k.gone || k.missing || !k.adopted.IsZero() && now.Sub(k.adopted) < AdoptAgain {
			continue
		}
		if k.claimed != "" || k.owner != "" && k.tags().cluster == "" && p.wanted(k.owner) {
			k.adopted = now
			found = append(found, unmarked{id: id, machine: cmp.Or(k.claimed, k.owner), was: k.tags().machine})
		}
	}
	return found
}

// claim notes that a Machine adopts a server whose tags name another one. It reports false when the tags have changed
// meanwhile.
func (inv *serverCache) claim(id string, from, to types.UID) bool {
	k := inv.byID[id]
	if k == nil || k.gone || k.missing || k.tags().machine != from {
		return false
	}
	inv.unindex(k)
	k.claimed = to
	inv.index(k)
	return true
}

// mark notes that metadata was written.
func (inv *serverCache) mark(id string, metadata map[string]string) {
	k, ok := inv.byID[id]
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
	inv.take(k, r, k.since)
}
