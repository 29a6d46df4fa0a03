package known

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// Resource is something in the cloud that is tagged with this cluster and a Machine.
type Resource struct {
	// Kind is server, port or floating IP.
	Kind    string
	ID      string
	Machine types.UID
	// Since is when it was first seen, on drover's clock.
	Since time.Time
}

// Resources returns all servers, ports and floating IPs of this cluster, as the shared lists have them: servers of the last list,
// the rest as listed within AddressPeriod.
func (p *Project) Resources() (all []Resource) {
	for k := range p.Servers.All() {
		if !k.Gone && k.IsTagged() && p.cluster.Has(k.Tags()) {
			all = append(all, Resource{Kind: string(owner.ServerKind), ID: k.ID, Machine: cmp.Or(p.protector(k), k.Machine()), Since: k.Since})
		}
	}
	onPort := map[string]types.UID{}
	for machine, ports := range p.Addresses.AllPorts() {
		for _, port := range ports {
			onPort[port.ID] = p.userOf(port, machine)
			all = append(all, Resource{Kind: string(owner.PortKind), ID: port.ID, Machine: onPort[port.ID], Since: port.Since})
		}
	}
	for machine, ip := range p.Addresses.AllFloatingIPs() {
		all = append(all, Resource{Kind: string(owner.FloatingIPKind), ID: ip.ID, Machine: cmp.Or(onPort[ip.PortID], machine), Since: ip.Since})
	}
	return all
}

// protector returns a living Machine that names the server, or whose server has that name, when the server's own Machine is
// unknown: such a server is never collected. It gives that Machine no other right.
func (p *Project) protector(k *servers.Known) types.UID {
	if p.knows(k.Machine()) {
		return ""
	}
	return cmp.Or(p.machines.Naming(k.ID), p.machines.Called(k.Name))
}

// userOf returns the Machine of the server that has a port, while it is one of this cluster's, else the one whose tag the
// port has.
func (p *Project) userOf(port addresses.Port, tagged types.UID) types.UID {
	k := p.Servers.ByID(port.ServerID)
	if k == nil || k.Gone || !p.cluster.Has(k.Tags()) {
		return tagged
	}
	return cmp.Or(p.protector(k), k.Machine(), tagged)
}
