package inventory

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// InDoubt returns the ID of a server of the Machine that must be asked for by its ID, or an empty string. required is false
// when the server is only in ERROR and no list says why: without an answer it is in ERROR all the same.
func (p *Project) InDoubt(m *Machine) (serverID string, required bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	living, _ := p.servers.ofMachine(m.UID)
	if id := p.doubtful(m, living); id != "" {
		return id, true
	}
	if failed := slices.IndexFunc(living, (*knownServer).unexplained); failed >= 0 {
		return living[failed].ID, false
	}
	return "", false
}

// doubtful returns the ID of a server whose existence a GET must settle, or an empty string. The first of these counts:
//   - a server of the Machine that the last complete list lacked;
//   - the server that spec.providerID names, when no list has shown it or the last complete list lacked it;
//   - the server that one of the Machine's ports is bound to, when the Machine has no other server.
//
// It returns no server that the mass guard holds. Before the first look of this process is done it returns none at all: that
// look asks for the servers that the first list lacks. The caller holds the lock.
func (p *Project) doubtful(m *Machine, living []*knownServer) string {
	id := ""
	for _, k := range living {
		if k.missing {
			id = k.ID
		}
	}
	if k := p.servers.byID[m.ServerID]; id == "" && (k == nil || k.missing) {
		id = m.ServerID
	}
	if id == "" && len(living) == 0 {
		id = p.boundServer(m.UID)
	}
	if p.guard.held[id] || !p.guard.ready {
		return ""
	}
	return id
}

// Prove makes one call, with do, that asks for a server by its ID on behalf of a Machine. The answer 404 proves that the server
// is gone and is no error; the server in the answer is known from then on. Other errors are those of the call.
func (p *Project) Prove(ctx context.Context, do Do, m *Machine, serverID string) error {
	found, err := lookUpServer(ctx, serverID, do)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	switch {
	case fault.Is(err, fault.NotFound):
		_, known := p.servers.byID[serverID]
		p.servers.markGone(serverID, m.UID, now)
		if k := p.servers.byID[serverID]; !known && serverID != m.ServerID {
			// The server is known only from a port; no Machine ever recorded it, so losing it is not a loss.
			k.own = true
		}
		if p.watchLosses(now) {
			p.Kick()
		}
		return nil
	case err != nil:
		return err
	}
	p.servers.merge(*found, now)
	if k := p.servers.byID[serverID]; k != nil {
		k.explained = k.Status == statusError
		p.faultyQuotas([]string{serverID})
	}
	return nil
}

// lookUpServer asks for one server by its ID.
func lookUpServer(ctx context.Context, id string, do Do) (*row, error) {
	var body struct {
		Server row `json:"server"`
	}
	err := do(ctx, client.Call{Service: client.Compute, Doing: "looking up server " + id, Version: client.VersionServers}, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL("servers", id), &body, nil)
		return err
	})
	return &body.Server, err
}

// HasServer reports whether a server that belongs to the Machine is known, or was known and is gone: that of the given ID, or
// any when it is empty.
func (p *Project) HasServer(machine types.UID, serverID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers.has(machine, serverID)
}

// AddServer adds a server that was just ordered for a Machine, under the ID in Nova's answer, and has it listed soon.
func (p *Project) AddServer(machine types.UID, serverID, name string) {
	p.mu.Lock()
	p.servers.merge(row{
		ID: serverID, Name: name, Status: statusBuild,
		Metadata: map[string]string{MetadataMachineUID: string(machine), MetadataClusterID: p.owners.cluster},
	}, p.clock.Now())
	p.mu.Unlock()
	p.expectBuild()
}
