package openstack

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// duplicateAge is how long a second server of a Machine must have been known before it goes: until then the Machine's own
// record of its server may still be on its way.
const duplicateAge = 2 * time.Minute

// removeDuplicates deletes what a create with an unknown outcome has made late, when another had been made by then. The
// server that the Machine names stays (design §3).
func (p *project) removeDuplicates(ctx context.Context, s *client.Session) {
	for _, id := range p.duplicates() {
		log.FromContext(ctx).Info("deleting a second server of a Machine", "server", id)
		asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("deleting server %s, a duplicate", id)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return servers.Delete(ctx, api, id).ExtractErr()
		})
		p.asked(id, err)
	}
}

// duplicates gives the servers that bear both marks of a Machine which names another one that lives.
func (p *project) duplicates() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var ids []string
	for uid, all := range p.inventory.byMachine {
		if len(all) < 2 {
			continue
		}
		i, known := p.registry.get(uid)
		named := p.inventory.servers[i.serverID]
		// Of a Machine that names a server which is not marked as its own, nothing is a duplicate.
		if !known || i.leaving || !all[i.serverID] || named == nil || named.gone || named.missing || named.Status != statusActive {
			continue
		}
		for id := range all {
			if k := p.inventory.servers[id]; id != i.serverID && k.isDuplicate(p.clusterID, now) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// isDuplicate: it lives, bears the cluster's mark too, has been known long enough, and it is its turn to be asked for.
func (k *knownServer) isDuplicate(cluster string, now time.Time) bool {
	return !k.gone && !k.missing && k.Metadata[metadataClusterID] == cluster && now.Sub(k.since) >= duplicateAge &&
		(k.asked.IsZero() || now.Sub(k.asked) >= deleteBackoff(k.times))
}
