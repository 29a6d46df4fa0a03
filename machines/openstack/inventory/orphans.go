package inventory

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// OrphanAge is how long a tagged resource must have been known before it may count as without an owner.
const OrphanAge = 15 * time.Minute

// Resource is something in the cloud that is tagged with this cluster and a Machine.
type Resource struct {
	// Kind is server, port or floating IP.
	Kind    string
	ID      string
	Machine types.UID
	// Since is when it was first seen, on drover's clock.
	Since time.Time
}

// OrphanVerdict says what may be collected.
type OrphanVerdict struct {
	// Orphans have no Machine and are old enough, in the order of their IDs. They may be collected when a second pass
	// finds the same and ReportOnly is empty.
	Orphans []Resource
	// ReportOnly says why nothing is collected all the same; empty: it may be.
	ReportOnly string
}

// JudgeOrphans returns the tagged resources without an owner. An operator must confirm (told) when there are too many tagged
// servers without a Machine: more than max(3, 10 %) of all tagged servers, as after a restore with other UIDs. The
// caller decides what to do when the cluster ID is new.
func JudgeOrphans(tagged []Resource, living map[types.UID]bool, now time.Time, told bool) OrphanVerdict {
	var v OrphanVerdict
	servers, ownerless := 0, 0
	for _, r := range tagged {
		if r.Kind == string(ServerKind) {
			servers++
			if !living[r.Machine] {
				ownerless++
			}
		}
		if !living[r.Machine] && now.Sub(r.Since) >= OrphanAge {
			v.Orphans = append(v.Orphans, r)
		}
	}
	slices.SortFunc(v.Orphans, func(a, b Resource) int { return cmp.Compare(a.ID, b.ID) })
	if tooMany(ownerless, servers) && !told {
		v.ReportOnly = "too many marked servers have no Machine"
	}
	return v
}

// Resources returns all servers, ports and floating IPs of this cluster, as the shared lists have them: servers of the last list,
// the rest as listed within OwnedPeriod. It makes no call.
func (p *Project) Resources() []Resource {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Resource
	for id, k := range p.servers.byID {
		if !k.gone && k.owner != "" && k.tags().cluster == p.owners.cluster {
			all = append(all, Resource{Kind: string(ServerKind), ID: id, Machine: cmp.Or(p.protector(k), k.machine()), Since: k.since})
		}
	}
	onPort := map[string]types.UID{}
	for machine, ports := range p.ports {
		for _, port := range ports {
			onPort[port.ID] = p.userOf(port, machine)
			all = append(all, Resource{Kind: string(PortKind), ID: port.ID, Machine: onPort[port.ID], Since: port.since})
		}
	}
	for machine, ip := range p.floating {
		all = append(all, Resource{Kind: string(FloatingIPKind), ID: ip.ID, Machine: cmp.Or(onPort[ip.PortID], machine), Since: ip.since})
	}
	return all
}

// protector returns a living Machine that names the server, or whose server has that name, when the server's own Machine is
// unknown: such a server is never collected. It gives that Machine no other right. The caller holds the lock.
func (p *Project) protector(k *knownServer) types.UID {
	if p.knows(k.machine()) {
		return ""
	}
	return cmp.Or(p.machines.Naming(k.ID), p.machines.Called(k.Name))
}

// userOf returns the Machine of the server that has a port, while it is one of this cluster's, else the one whose tag the
// port has; the caller holds the lock.
func (p *Project) userOf(port Port, tagged types.UID) types.UID {
	k := p.servers.byID[port.ServerID]
	if k == nil || k.gone || k.tags().cluster != p.owners.cluster {
		return tagged
	}
	return cmp.Or(p.protector(k), k.machine(), tagged)
}
