package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// AddServer adds a server that was just created for a Machine with its reserved quota, with the ID from Nova's answer, and schedules a
// list.
func (p *Project) AddServer(machine types.UID, serverID, name string) {
	p.With(func(s *state.Project) { s.AddServer(machine, serverID, name, p.o.Clock.Now()) })
	signal(p.creates)
}

// CreateFailed records the error of a create that needed the quota want. When the error does not show whether the resource was
// created, the create is in doubt until a list shows the resource or enough time has passed. A server create in doubt also makes the
// Machine's ports unusable for another server.
func (p *Project) CreateFailed(tag state.Tag, err error, want state.Amounts) {
	var soon bool
	p.With(func(s *state.Project) { soon = s.CreateFailed(tag, err, want, p.o.Clock.Now()) })
	if soon {
		p.Kick()
	}
}

// Prove looks a server of a Machine up by its ID. do makes the call, with the Machine's credentials. Prove records the server from
// the answer. A 404 is not an error: it proves that the server is gone.
func (p *Project) Prove(ctx context.Context, do Do, m *state.Machine, serverID string) error {
	found, err := lookUpServer(ctx, serverID, do)
	p.With(func(s *state.Project) { s.LookedUp(m, serverID, found, err, p.o.Clock.Now()) })
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
