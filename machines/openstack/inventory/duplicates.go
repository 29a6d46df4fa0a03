package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/openstack/client"
)

// DuplicateAge is how long a second server of a Machine must have been known before it goes: until then the Machine's own
// record of its server may still be on its way.
const DuplicateAge = 2 * time.Minute

// removeDuplicates deletes what a create with an unknown outcome has made late, when another had been made by then. The
// server that the Machine names stays (design §3).
func (p *Project) removeDuplicates(ctx context.Context, s *client.Session) {
	for _, id := range p.duplicates() {
		log.FromContext(ctx).Info("deleting a second server of a Machine", "server", id)
		asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("deleting server %s, a duplicate", id)}
		err := s.Do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
			return servers.Delete(ctx, api, id).ExtractErr()
		})
		p.DeletionRequested(id, err)
	}
}

// duplicates returns the servers that have both tags of a Machine, while the one that the Machine names is its own too and
// works. A Machine that names a server which is not its own has no duplicates: which one would be it is undecidable.
func (p *Project) duplicates() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var ids []string
	for uid, all := range p.servers.byMachine {
		if len(all) < 2 {
			continue
		}
		m, known := p.machines.Get(uid)
		named := p.servers.byID[m.ServerID]
		if !known || m.Leaving || named == nil || !named.belongs(uid) || named.gone || named.missing || named.Status != statusActive {
			continue
		}
		for id := range all {
			if k := p.servers.byID[id]; id != m.ServerID && k.isDuplicate(uid, p.owners.cluster, now) && (m.Joined || p.hasPorts(uid, named, k)) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// hasPorts reports whether a server was seen on its Machine's ports after another server of the Machine had turned up: of two
// that were ordered on one port, the one that works may have lost it. True when the Machine has no tagged port. The caller
// holds the lock.
func (p *Project) hasPorts(machine types.UID, k, other *knownServer) bool {
	return len(p.ports[machine]) == 0 || k.detached == "" && !k.portsLooked.Before(other.since.Add(DuplicateAge))
}

// isDuplicate reports whether the server, beside the one that its Machine names, is to be deleted now: it exists, has both
// tags itself, has been known long enough, and its deletion was not asked for a moment ago.
func (k *knownServer) isDuplicate(machine types.UID, cluster string, now time.Time) bool {
	return !k.gone && !k.missing && k.owner == machine && k.tags().cluster == cluster && now.Sub(k.since) >= DuplicateAge &&
		(k.asked.IsZero() || now.Sub(k.asked) >= deleteBackoff(k.times))
}
