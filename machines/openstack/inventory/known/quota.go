package known

import (
	"time"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// failedQuotas notes those of the servers that are ours and went to ERROR for a quota.
func (p *Project) failedQuotas(ids []string, now time.Time) {
	for _, id := range ids {
		k := p.Servers.ByID(id)
		if k == nil || k.Gone || k.Status != servers.StatusError || !p.isOurs(k) {
			continue
		}
		if e := client.JudgeServer(id, k.Fault.Message); e.Class == fault.Quota {
			p.Quota.Failed(k.Machine(), e, now)
		}
	}
}
