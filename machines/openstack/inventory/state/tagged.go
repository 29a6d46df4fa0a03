package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/cloud"
)

// Tagged returns all servers, ports and floating IPs with both owner tags of this cluster, sorted by kind and ID. It makes no call:
// servers are those of the last list, and ports and floating IPs are listed once per AddressPeriod. It leaves out a server that is
// missing from a complete list.
func (p *Project) Tagged() (all []cloud.Resource) {
	for _, k := range p.Servers.byID {
		if k.present() && k.tagged != "" && p.cluster.Has(k.Tags()) {
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
func (p *Project) taggedAddresses() (all []cloud.Resource) {
	onServer := map[string]string{}
	port := func(server string, r cloud.Resource) {
		r.Kind, r.UsedBy = cloud.ResourcePort, p.existing(server)
		onServer[r.ID] = r.UsedBy
		all = append(all, r)
	}
	for machine, ports := range p.Addresses.ports {
		for _, one := range ports {
			port(one.ServerID, cloud.Resource{ID: one.ID, Machine: machine})
		}
	}
	for id, duplicate := range p.Addresses.duplicates {
		if duplicate.tag.Kind == PortKind {
			port(duplicate.on, cloud.Resource{ID: id, Machine: duplicate.tag.Machine})
		}
	}
	floatingIP := func(onPort string, r cloud.Resource) {
		r.Kind, r.UsedBy = cloud.ResourceFloatingIP, onServer[onPort]
		all = append(all, r)
	}
	for machine, ip := range p.Addresses.floating {
		floatingIP(ip.PortID, cloud.Resource{ID: ip.ID, Machine: machine})
	}
	for id, duplicate := range p.Addresses.duplicates {
		if duplicate.tag.Kind == FloatingIPKind {
			floatingIP(duplicate.on, cloud.Resource{ID: id, Machine: duplicate.tag.Machine})
		}
	}
	return all
}

// existing returns serverID if the server is known and not gone, and an empty string otherwise.
func (p *Project) existing(serverID string) string {
	if k := p.Servers.byID[serverID]; k == nil || k.gone {
		return ""
	}
	return serverID
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
	return k == nil || !k.present()
}

// Collected records that a resource without a Machine was deleted, or that its deletion was requested.
func (p *Project) Collected(r cloud.Resource, now time.Time) {
	switch r.Kind {
	case cloud.ResourceServer:
		p.DeletionRequested(r.ID, nil, now)
	default:
		p.Addresses.forget(r.ID)
	}
}
