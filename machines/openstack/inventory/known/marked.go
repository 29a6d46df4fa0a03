package known

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
)

// Marked returns all servers, ports and floating IPs that have both marks of this cluster, sorted by kind and ID. It makes no call:
// the servers are those of the last list, ports and floating IPs are listed once per AddressPeriod. It leaves out a server that a
// complete list no longer has.
func (p *Project) Marked() (all []cloud.Resource) {
	for k := range p.Servers.All() {
		if k.Present() && k.IsTagged() && p.cluster.Has(k.Tags()) {
			all = append(all, cloud.Resource{
				Kind: cloud.ResourceServer, ID: k.ID, Name: k.Name, Key: keyOf(k.ID), Machine: k.Machine(), Seen: k.Since, Created: k.Created,
			})
		}
	}
	all = append(all, p.markedAddresses()...)
	slices.SortFunc(all, func(a, b cloud.Resource) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// markedAddresses returns the ports and floating IPs that have an owner tag of this cluster.
func (p *Project) markedAddresses() (all []cloud.Resource) {
	onServer := map[string]string{}
	port := func(id, server string, machine types.UID, seen time.Time) {
		onServer[id] = p.existing(server)
		all = append(all, cloud.Resource{Kind: cloud.ResourcePort, ID: id, Machine: machine, UsedBy: onServer[id], Seen: seen})
	}
	for machine, ports := range p.Addresses.AllPorts() {
		for _, one := range ports {
			port(one.ID, one.ServerID, machine, one.Since)
		}
	}
	for id, twin := range p.Addresses.Twins() {
		if twin.Tag.Kind == owner.PortKind {
			port(id, twin.On, twin.Tag.Machine, twin.Since)
		}
	}
	floatingIP := func(id, onPort string, machine types.UID, seen time.Time) {
		all = append(all, cloud.Resource{Kind: cloud.ResourceFloatingIP, ID: id, Machine: machine, UsedBy: onServer[onPort], Seen: seen})
	}
	for machine, ip := range p.Addresses.AllFloatingIPs() {
		floatingIP(ip.ID, ip.PortID, machine, ip.Since)
	}
	for id, twin := range p.Addresses.Twins() {
		if twin.Tag.Kind == owner.FloatingIPKind {
			floatingIP(id, twin.On, twin.Tag.Machine, twin.Since)
		}
	}
	return all
}

// existing returns the ID of the server while it exists as far as is known, else an empty string.
func (p *Project) existing(serverID string) string {
	if k := p.Servers.ByID(serverID); k == nil || k.Gone {
		return ""
	}
	return serverID
}

// Doubt returns, for people, why what is known of the project is not complete or not current; empty when it is both.
func (p *Project) Doubt() string {
	switch {
	case p.failure != nil:
		return fmt.Sprintf("the last list of %s failed: %v", p.site, p.failure)
	case !p.IsSynced():
		return fmt.Sprintf("the servers, ports and floating IPs of %s have not been listed yet", p.site)
	case !p.Guard.IsReady():
		return fmt.Sprintf("what the mass-deletion guard of %s holds is not known yet", p.site)
	}
	return ""
}

// Lacks reports whether no server with that ID exists in the project, as far as is known.
func (p *Project) Lacks(serverID string) bool {
	k := p.Servers.ByID(serverID)
	return k == nil || !k.Present()
}

// Collected notes that a resource of a Machine that does not exist any more was deleted, or that its deletion was requested.
func (p *Project) Collected(r cloud.Resource, now time.Time) {
	switch r.Kind {
	case cloud.ResourceServer:
		p.DeletionRequested(r.ID, nil, now)
	default:
		p.Addresses.Forget(r.ID)
	}
}
