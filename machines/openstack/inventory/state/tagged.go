package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

// Tagged returns all servers, ports and floating IPs with both owner tags of this cluster, sorted by kind and ID. It makes no call:
// servers are those of the last list, and ports and floating IPs are listed once per AddressPeriod. It leaves out a server that is
// missing from a complete list.
func (p *Project) Tagged() (all []cloud.Resource) {
	for _, k := range p.Servers.byID {
		if k.fate == present && k.tagged != "" && p.cluster.Has(k.Metadata) {
			all = append(all, cloud.Resource{
				Kind: cloud.ResourceServer, ID: k.ID, Name: k.Name, Key: keyOf(k.ID), Machine: k.machine(), Deleting: k.State() == cloud.ServerDeleting,
			})
		}
	}
	all = append(all, p.taggedAddresses()...)
	slices.SortFunc(all, func(a, b cloud.Resource) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// taggedAddresses returns the ports and floating IPs with an owner tag of this cluster.
func (p *Project) taggedAddresses() []cloud.Resource {
	all := slices.Collect(maps.Values(p.Addresses.duplicates))
	for machine, ports := range p.Addresses.ports {
		for _, port := range ports {
			all = append(all, cloud.Resource{Kind: cloud.ResourcePort, ID: port.ID, Machine: machine, UsedBy: port.DeviceID})
		}
	}
	for machine, ip := range p.Addresses.floating {
		all = append(all, cloud.Resource{Kind: cloud.ResourceFloatingIP, ID: ip.ID, Machine: machine, UsedBy: ip.PortID})
	}
	onServer := map[string]string{}
	for _, r := range all {
		if k := p.Servers.byID[r.UsedBy]; r.Kind == cloud.ResourcePort && k != nil && !k.gone() {
			onServer[r.ID] = r.UsedBy
		}
	}
	for i, r := range all {
		port := r.ID
		if r.Kind == cloud.ResourceFloatingIP {
			port = r.UsedBy
		}
		all[i].UsedBy = onServer[port]
	}
	return all
}

// Doubt returns, for users, why the known resources of the project are not complete or not current; empty when they are complete
// and current.
func (p *Project) Doubt() string {
	switch {
	case p.failure != nil:
		return fmt.Sprintf("the last list of %s failed: %v", p.site, p.failure)
	case !p.isSynced():
		return fmt.Sprintf("the servers, ports and floating IPs of %s have not been listed yet", p.site)
	}
	return ""
}

// Lacks reports whether no server with that ID is known to exist in the project.
func (p *Project) Lacks(serverID string) bool {
	k := p.Servers.byID[serverID]
	return k == nil || k.fate != present
}

// Collected records that a resource without a Machine was deleted, or that its deletion was requested.
func (p *Project) Collected(r cloud.Resource, now time.Time) {
	if r.Kind == cloud.ResourceServer {
		p.DeletionRequested(r.ID, nil, now)
		return
	}
	delete(p.Addresses.duplicates, r.ID)
	p.Addresses.Forget(p.cluster.Tag(cloud.ResourceFloatingIP, r.Machine, 0), r.ID)
	for n := range p.Addresses.ports[r.Machine] {
		p.Addresses.Forget(p.cluster.Tag(cloud.ResourcePort, r.Machine, n), r.ID)
	}
}
