package openstack

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// adoptions is how many servers are marked between two lists: a cluster that is taken over must not wait for them. When
	// there are more, the next list comes soon.
	adoptions = 25
	// adoptAgain is how long a mark that could not be written is left alone.
	adoptAgain = 10 * time.Minute
)

// stranger is a server of a Machine of ours that does not bear both marks yet. was is the Machine whose mark it bears;
// empty: none.
type stranger struct {
	id           string
	machine, was types.UID
}

// adopt writes the marks onto servers that are ours without them: those that machine-controller made, or that a Machine
// names. Only then may the collector ever consider them. What is on a server goes first, since it is found by the old mark.
// A Machine that is there keeps its server, also one that nobody has looked at since the start, being paused.
func (p *project) adopt(ctx context.Context, s *client.Session) {
	for _, st := range p.strangers() {
		if st.was != "" && st.was != st.machine && p.lives(ctx, st.was) {
			log.FromContext(ctx).Info("a Machine names a server of another one, which is not taken from it", "server", st.id, "machineUID", st.machine, "owner", st.was)
			continue
		}
		if err := p.adoptAddresses(ctx, s, st); err != nil {
			log.FromContext(ctx).Info("what is on a server cannot be marked yet", "server", st.id, "error", err.Error())
			continue
		}
		marks := servers.MetadataOpts{metadataMachineUID: string(st.machine), metadataClusterID: p.clusterID}
		asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("marking server %s as Machine %s", st.id, st.machine)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return servers.UpdateMetadata(ctx, api, st.id, marks).Err
		})
		if err != nil {
			log.FromContext(ctx).Info("a server cannot be marked yet", "server", st.id, "error", err.Error())
			continue
		}
		p.mu.Lock()
		p.inventory.mark(st.id, marks)
		p.mu.Unlock()
	}
}

// adoptAddresses writes the Machine's mark onto the ports and the floating IP of a server that bore another's.
func (p *project) adoptAddresses(ctx context.Context, s *client.Session, st stranger) error {
	if st.was == "" || st.was == st.machine {
		return nil
	}
	ip, hasIP := p.ipOf(st.was)
	for n, port := range p.portsOf(st.was) {
		if port.serverID != st.id {
			continue
		}
		m := mark{portKind, p.clusterID, st.machine, n}
		if hasIP && ip.portID == port.id {
			if err := p.adoptIP(ctx, s, ip, mark{floatingKind, p.clusterID, st.machine, 0}); err != nil {
				return err
			}
			p.forgetIP(st.was)
		}
		asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("marking port %s as Machine %s", port.id, st.machine)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return ports.Update(ctx, api, port.id, ports.UpdateOpts{Description: new(m.String())}).Err
		})
		if err != nil {
			return err
		}
		p.forgetPort(st.was, n)
		p.mu.Lock()
		p.keepPort(m, port)
		p.mu.Unlock()
	}
	return nil
}

// adoptIP writes a mark onto a floating IP. Its port is named too: Neutron takes an address off that is updated without.
func (p *project) adoptIP(ctx context.Context, s *client.Session, ip ownedIP, m mark) error {
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("marking floating IP %s as Machine %s", ip.address, m.machine)}
	err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.id, floatingips.UpdateOpts{Description: new(m.String()), PortID: &ip.portID}).Err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepIP(m, ip)
	return nil
}

// strangers gives some of the servers to be marked, and notes that it was tried.
func (p *project) strangers() []stranger {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var found []stranger
	for id, k := range p.inventory.servers {
		if len(found) == adoptions {
			p.kick()
			break
		}
		if k.gone || k.missing || !k.adopted.IsZero() && now.Sub(k.adopted) < adoptAgain {
			continue
		}
		if machine := p.ownerOf(k); machine != "" {
			k.adopted = now
			found = append(found, stranger{id: id, machine: machine, was: k.row.machine()})
		}
	}
	return found
}

// ownerOf gives the Machine whose marks a server should bear and does not; empty: none. The UID says it by itself; that a
// Machine names the server says it unless the server bears another cluster's mark or another Machine's UID that lives.
func (p *project) ownerOf(k *knownServer) types.UID {
	uid, cluster := k.row.machine(), k.Metadata[metadataClusterID]
	switch {
	case k.claimed != "":
		return k.claimed
	case uid != "" && p.wanted(uid):
		if cluster == p.clusterID {
			return ""
		}
		return uid
	case cluster != "" && cluster != p.clusterID:
		return ""
	}
	return p.registry.named(k.ID)
}

// mark notes that metadata was written.
func (inv *inventory) mark(id string, metadata map[string]string) {
	k, ok := inv.servers[id]
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
