package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
)

// Facts returns what is known of a Machine's cloud side. It makes no call. Servers have no ProviderID, and Leftovers does not
// count the volumes that the Machine's status names.
func (p *Project) Facts(m *Machine) cloud.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Facts(m)
}

// ServerOf returns the Machine's server without its ProviderID; nil when the Machine has none. It makes no call.
func (p *Project) ServerOf(m *Machine) *cloud.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.ServerOf(m)
}

// HasServer reports whether a server that belongs to the Machine is known, or was known and is gone: that of the given ID, or
// any when it is empty.
func (p *Project) HasServer(machine types.UID, serverID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Servers.Has(machine, serverID)
}

// AddServer adds a server that was just ordered for a Machine, under the ID in Nova's answer, and has it listed soon.
func (p *Project) AddServer(machine types.UID, serverID, name string) {
	p.mu.Lock()
	p.known.AddServer(machine, serverID, name, p.clock.Now())
	p.mu.Unlock()
	signal(p.creates)
}

// InDoubt returns the ID of a server of the Machine that must be asked for by its ID, or an empty string. required is false
// when the server is only in ERROR and no list says why: without an answer it is in ERROR all the same.
func (p *Project) InDoubt(m *Machine) (serverID string, required bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.InDoubt(m)
}

// Prove makes one call, with do, that asks for a server by its ID on behalf of a Machine. The answer 404 proves that the server
// is gone and is no error; the server in the answer is known from then on. Other errors are those of the call.
func (p *Project) Prove(ctx context.Context, do calls.Do, m *Machine, serverID string) error {
	found, err := calls.LookUpServer(ctx, serverID, do)
	p.mu.Lock()
	toStore := p.known.LookedUp(m, serverID, found, err, p.clock.Now())
	p.mu.Unlock()
	if toStore {
		p.Kick()
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Deletable returns the Machine's servers whose deletion may be requested now: each at most once per back-off (30 s, doubling to
// 5 min). With failedOnly only those that are in ERROR or have lost their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool) []Deletion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Deletable(machine, failedOnly, p.clock.Now())
}

// DeletionRequested notes the outcome of a request to delete a server. The back-off begins only when the request was accepted.
func (p *Project) DeletionRequested(serverID string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.DeletionRequested(serverID, err, p.clock.Now())
}

// IsLossHeld reports whether the mass-deletion guard does not believe that the Machine's server is gone.
func (p *Project) IsLossHeld(machine types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.IsLossHeld(machine)
}

// GoneServers returns the IDs of the servers that belonged to the Machine and are gone, and the IDs of the volumes that were seen
// on them and end with them. A server that only the Machine names is not among them.
func (p *Project) GoneServers(machine types.UID) (servers []string, volumes map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.GoneServers(machine)
}

// Statistics returns the numbers of this moment.
func (p *Project) Statistics() Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Statistics(p.clock.Now())
}
