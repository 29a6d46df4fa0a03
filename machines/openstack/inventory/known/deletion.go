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

// Deletable returns the Machine's servers whose deletion may be requested now: each at most once per back-off (30 s, doubling to 5
// min). With failedOnly it returns only those in ERROR or without their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool, now time.Time) (due []servers.Deletion) {
	living, _ := p.Servers.OfMachine(machine)
	for _, k := range living {
		if (!failedOnly || k.Failed()) && k.IsDeletionDue(now) {
			due = append(due, k.Deletion())
		}
	}
	return due
}

// DeletionRequested records the result of a delete request. The back-off begins only when the request was accepted.
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

// IsLossHeld reports whether the mass-deletion guard holds the Machine's server.
func (p *Project) IsLossHeld(machine types.UID) bool {
	_, gone := p.Servers.OfMachine(machine)
	return slices.ContainsFunc(gone, func(k *servers.Known) bool { return p.Guard.Holds(k.ID) })
}

// GoneServers returns the IDs of the Machine's former servers, and the IDs of the volumes that were seen on them and are deleted
// with them. It does not return a server that only the Machine names.
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

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone. It does when
// it has the Machine's owner tag. Without an owner tag it does when it was on the Machine's own server, either because the
// inventory has seen it there, or because the Machine's record has it (recorded), which only drover can write. A floating IP that
// is now on another port is not the Machine's any more.
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
