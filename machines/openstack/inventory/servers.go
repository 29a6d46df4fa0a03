package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Facts returns what is known of a Machine's resources. It makes no call. Servers have no ProviderID, and Leftovers does not count
// the volumes in the Machine's status.
func (p *Project) Facts(m *state.Machine) cloud.Facts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Facts(m)
}

// ServerOf returns the Machine's server, with the field ProviderID left empty; nil when the Machine has no server. It makes no
// call.
func (p *Project) ServerOf(m *state.Machine) *cloud.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.ServerOf(m)
}

// HasServer reports whether a server of the Machine is known, or was known and is gone. It considers only the server serverID or,
// when serverID is empty, any server.
func (p *Project) HasServer(machine types.UID, serverID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Servers.Has(machine, serverID)
}

// IsGone reports whether a server was known and is gone. It makes no call.
func (p *Project) IsGone(serverID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.IsGone(serverID)
}

// AddServer adds a server that was just created for a Machine, with the ID from Nova's answer, and schedules a list.
func (p *Project) AddServer(machine types.UID, serverID, name string) {
	p.mu.Lock()
	p.known.AddServer(machine, serverID, name, p.clock.Now())
	p.mu.Unlock()
	signal(p.creates)
}

// InDoubt returns the ID of a server of the Machine that must be looked up by its ID; empty when there is none. required is false
// when the server is merely in ERROR without a known reason: it stays in ERROR even when the look-up fails.
func (p *Project) InDoubt(m *state.Machine) (serverID string, required bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.InDoubt(m)
}

// Prove looks a server of a Machine up by its ID. do makes the call, with the Machine's credentials. Prove records the server from
// the answer. A 404 is not an error: it proves that the server is gone.
func (p *Project) Prove(ctx context.Context, do Do, m *state.Machine, serverID string) error {
	found, err := lookUpServer(ctx, serverID, do)
	p.mu.Lock()
	p.known.LookedUp(m, serverID, found, err, p.clock.Now())
	p.mu.Unlock()
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Deletable returns the Machine's servers whose deletion may be requested now. Between two requests for the same server drover
// waits for a back-off (30 s, doubling to 5 min). If failedOnly is true, it returns only servers in ERROR or without their ports.
func (p *Project) Deletable(machine types.UID, failedOnly bool) []state.Deletion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Deletable(machine, failedOnly, p.clock.Now())
}

// DeletionRequested records the result of a request to delete a server. The back-off before the next request begins only when the
// cloud accepted this request.
func (p *Project) DeletionRequested(serverID string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.DeletionRequested(serverID, err, p.clock.Now())
}

// GoneServers returns the IDs of the Machine's former servers, and the IDs of the volumes that were seen on these servers and are
// deleted together with their server. It does not return a server that only the Machine names.
func (p *Project) GoneServers(machine types.UID) (servers []string, volumes map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.GoneServers(machine)
}

// Statistics returns the current numbers.
func (p *Project) Statistics() state.Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Statistics(p.clock.Now())
}
