package state

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
)

// Deletable returns the Machine's servers whose deletion may be requested now. Between two requests for the same server drover
// waits for a back-off (30 s, doubling to 5 min). If failedOnly is true, it returns only servers in ERROR or without their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool, now time.Time) (due []Deletion) {
	living, _ := p.Servers.ofMachine(machine)
	for _, k := range living {
		if (!failedOnly || k.failed()) && k.isDeletionDue(now) {
			due = append(due, k.nextDeletion())
		}
	}
	return due
}

// DeletionRequested records the result of a request to delete a server. The back-off before the next request begins only when the
// cloud accepted this request.
func (p *Project) DeletionRequested(serverID string, err error, now time.Time) {
	k := p.Servers.get(serverID)
	switch {
	case k == nil:
	case err == nil:
		k.deletionRequested(now)
	case fault.Is(err, fault.NotFound):
		k.missing = true
	}
}

// GoneServers returns the IDs of the Machine's former servers, and the IDs of the volumes that were seen on these servers and are
// deleted together with their server. It does not return a server that only the Machine names.
func (p *Project) GoneServers(machine types.UID) (ids []string, volumes map[string]bool) {
	volumes = map[string]bool{}
	_, gone := p.Servers.ofMachine(machine)
	for _, k := range gone {
		if !k.belongsTo(machine) {
			continue
		}
		ids = append(ids, k.ID)
		for _, id := range k.ending {
			volumes[id] = true
		}
	}
	return ids, volumes
}

// OwnsFloatingIP reports whether a floating IP that was just looked up belongs to the Machine, whose servers are gone. A floating
// IP with an owner tag belongs to the Machine in the tag. A floating IP without an owner tag belongs to the Machine if the
// inventory has seen it on the Machine's own server, and if it is not on another port now. If it is on no port now, it also
// belongs to the Machine when recorded is true: then the Machine's status names the floating IP, and only drover can write that
// status.
func (p *Project) OwnsFloatingIP(m *Machine, ip *FloatingIPRow, recorded bool) bool {
	return p.cluster.JudgeAddress(m, FloatingIPKind, ip.Description, p.wasOnOwn(m.UID, ip, recorded)) == Mine
}

// wasOnOwn reports whether a floating IP was on the Machine's own server and is not on another port now. recorded is true when
// the Machine's status names the floating IP: this suffices if the floating IP is on no port now.
func (p *Project) wasOnOwn(machine types.UID, ip *FloatingIPRow, recorded bool) bool {
	_, gone := p.Servers.ofMachine(machine)
	seen := p.Addresses.placeOf(ip.ID)
	onOwn := slices.ContainsFunc(gone, func(k *server) bool { return k.ID == seen.ServerID && k.belongsTo(machine) })
	if ip.PortID != "" {
		return onOwn && seen.PortID == ip.PortID
	}
	return onOwn || recorded
}
