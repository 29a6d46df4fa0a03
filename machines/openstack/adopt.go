package openstack

import (
	"context"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// adoptions is how many servers are marked between two lists: a cluster that is taken over must not wait for them.
	adoptions = 25
	// adoptAgain is how long a mark that could not be written is left alone.
	adoptAgain = 10 * time.Minute
)

// stranger is a server of a Machine of ours that does not bear both marks yet.
type stranger struct {
	id      string
	machine types.UID
}

// adopt writes the marks onto servers that are ours without them: those that machine-controller made, or that a Machine
// names. Only then may the collector ever consider them.
func (p *project) adopt(ctx context.Context, s *session) {
	for _, st := range p.strangers() {
		marks := servers.MetadataOpts{metadataMachineUID: string(st.machine), metadataClusterID: p.clusterID}
		asking := call{service: computeService, doing: fmt.Sprintf("marking server %s as Machine %s", st.id, st.machine)}
		err := s.do(ctx, asking, func(ctx context.Context, client *gophercloud.ServiceClient) error {
			return servers.UpdateMetadata(ctx, client, st.id, marks).Err
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

// strangers gives some of the servers to be marked, and notes that it was tried.
func (p *project) strangers() []stranger {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var found []stranger
	for id, k := range p.inventory.servers {
		if len(found) == adoptions {
			break
		}
		if k.gone || k.missing || !k.adopted.IsZero() && now.Sub(k.adopted) < adoptAgain {
			continue
		}
		if machine := p.ownerOf(k); machine != "" {
			k.adopted = now
			found = append(found, stranger{id: id, machine: machine})
		}
	}
	return found
}

// ownerOf gives the Machine whose marks a server should bear and does not; empty: none. The UID says it by itself; that a
// Machine names the server says it unless the server bears another cluster's mark or another Machine's UID that lives.
func (p *project) ownerOf(k *knownServer) types.UID {
	uid, cluster := k.machine(), k.Metadata[metadataClusterID]
	switch {
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
	inv.unindex(k)
	inv.take(k, r, k.since)
}
