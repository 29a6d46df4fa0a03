package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// ServerOf returns the Machine's server from the inventory; nil when there is none. The addresses come from the server's row in
// Nova and from the ports and the floating IP with the Machine's owner tag. Only a living server whose machine-uid is the
// Machine's UID counts, even when spec.providerID names another server. ServerOf makes no call. It returns an error while the
// resources of the project have not been listed yet.
func (c *Cloud) ServerOf(ctx context.Context, m *v1alpha1.Machine) (*cloud.Server, error) {
	asked, ok := c.machines.get(m.UID)
	if !ok {
		return nil, fault.New(fault.Transient, fault.CodeUnsettled, "Machine %s/%s has not been reconciled since drover started", m.Namespace, m.Name)
	}
	i := &instance{cloud: c, connection: asked.connection}
	p, err := i.ready()
	if err != nil {
		return nil, err
	}
	var own *cloud.Server
	p.With(func(s *state.Project) { own = s.Facts(&state.Machine{UID: m.UID, ServerID: serverIDOf(m)}).Server })
	if own != nil {
		own.ProviderID = i.providerID(own.ID)
		own.Configured = c.isConfigured(ctx, p)
	}
	return own, nil
}
