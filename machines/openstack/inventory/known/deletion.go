package known

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// Deletable returns the Machine's servers whose deletion may be requested now: each at most once per back-off (30 s, doubling to
// 5 min). With failedOnly only those that are in ERROR or have lost their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool, now time.Time) (due []servers.Deletion) {
	living, _ := p.Servers.OfMachine(machine)
	for _, k := range living {
		if (!failedOnly || k.Failed()) && k.IsDeletionDue(now) {
			due = append(due, k.Deletion())
		}
	}
	return due
}

// DeletionRequested notes the outcome of a request to delete a server. The back-off begins only when the request was accepted.
func (p *Project) DeletionRequested(serverID string, err error, now time.Time) {
	k := p.Servers.ByID(serverID)
	switch {
	case k == nil:
	case err == nil:
		k.DeletionRequested(now)
	case fault.Is(err, fault.NotFound):
		k.Missing = true
	}
}

// IsLossHeld reports whether the mass-deletion guard does not believe that the Machine's server is gone.
func (p *Project) IsLossHeld(machine types.UID) bool {
	_, gone := p.Servers.OfMachine(machine)
	return slices.ContainsFunc(gone, func(k *servers.Known) bool { return p.Guard.Holds(k.ID) })
}

// GoneServers returns the IDs of the servers that belonged to the Machine and are gone, and the IDs of the volumes that were seen
// on them and end with them. A server that only the Machine names is not among them.
func (p *Project) GoneServers(machine types.UID) (ids []string, volumes map[string]bool) {
	volumes = map[string]bool{}
	_, gone := p.Servers.OfMachine(machine)
	for _, k := range gone {
		if !k.BelongsTo(machine) {
			continue
		}
		ids = append(ids, k.ID)
		for _, id := range k.Ending {
			volumes[id] = true
		}
	}
	return ids, volumes
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone: it has the
// Machine's owner tag, or no owner tag and was on the Machine's own server. The inventory has seen it there, or recorded is true: the
// Machine's record says so, and only drover can write that. A floating IP that is on another port now is not the Machine's any
// more.
func (p *Project) OwnsFloatingIP(m *owner.Machine, ip *addresses.FloatingIPRow, recorded bool) bool {
	return p.cluster.JudgeAddress(m, owner.FloatingIPKind, ip.Description, p.wasOnOwn(m.UID, ip, recorded)) == owner.Mine
}

// wasOnOwn reports whether a floating IP was on the Machine's own server.
func (p *Project) wasOnOwn(machine types.UID, ip *addresses.FloatingIPRow, recorded bool) bool {
	_, gone := p.Servers.OfMachine(machine)
	seen := p.Addresses.PlaceOf(ip.ID)
	onOwn := slices.ContainsFunc(gone, func(k *servers.Known) bool { return k.ID == seen.ServerID && k.BelongsTo(machine) })
	if ip.PortID != "" {
		return onOwn && seen.PortID == ip.PortID
	}
	return onOwn || recorded
}
