package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// A port does not prevent a second server: while the port is unbound, Nova accepts every create that names it. When one of those
// creates fails, its clean-up unbinds the port from the server that works. Therefore no create may name a port that an earlier
// create with an unknown outcome may name. drover replaces the port first: a create that names a deleted port is refused, or fails
// without affecting another server (docs/decisions/0040).

// replacePort deletes a port that a create with an unknown outcome may name, once that create is resolved, which beginMaking has checked,
// and the port is unbound. The caller creates the port again. It returns Transient while the port is bound to a server.
//
// The old port is deleted before the new one is created, so that at most one port has the owner tag at any time. After a crash, the
// next leader finds the old port, no port, or a new port that it did not create itself, and starts again from there.
func (i *instance) replacePort(ctx context.Context, p *inventory.Project, n int, port state.Port) error {
	found, err := lookUp[state.Port](ctx, i, client.Network, fmt.Sprintf("looking up port %d of server %s", n, i.machine.ServerName), "port", port.ID)
	if err != nil {
		return err
	}
	if found != nil {
		p.With(func(s *state.Project) { err = s.FoundUnbound(i.tag(cloud.ResourcePort, n), *found, i.now()) })
		if err != nil {
			return err
		}
		if err := i.deletePort(ctx, n, port); err != nil {
			return err
		}
	}
	if err := i.findIPOf(ctx, p, n); err != nil {
		return err
	}
	p.With(func(s *state.Project) { s.Addresses.Forget(i.tag(cloud.ResourcePort, n), port.ID) })
	return nil
}

// findIPOf looks for a floating IP that a previous leader created on the port that is now deleted, and that no list has shown yet.
// Otherwise drover would create a second floating IP for the new port.
func (i *instance) findIPOf(ctx context.Context, p *inventory.Project, n int) error {
	if p.ResourcesOf(i.machine.UID).FloatingIP != nil || n > 0 || i.machine.FloatingIPID != "" || i.spec.FloatingIPPool == "" {
		return nil
	}
	_, err := i.find(ctx, p, i.tag(cloud.ResourceFloatingIP, 0))
	return err
}

// moveIP attaches the Machine's floating IP to the Machine's first port, when the floating IP is on another port or on none. This
// happens after the port was replaced: the new port has a new ID, and Neutron disassociates an address when its port is deleted.
func (i *instance) moveIP(ctx context.Context, p *inventory.Project) error {
	own := p.ResourcesOf(i.machine.UID)
	port, ok := own.Ports[0]
	if !ok || own.FloatingIP == nil {
		return i.errNoPort()
	}
	ip := *own.FloatingIP
	if ip.PortID == port.ID {
		return nil
	}
	m := i.tag(cloud.ResourceFloatingIP, 0)
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("putting floating IP %s on the port of server %s", ip.Address, i.machine.ServerName)}
	err := i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Err
	})
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		// The port or the floating IP may be gone.
		p.With(func(s *state.Project) { s.Addresses.DoubtPorts(i.machine.UID) })
		if found, looked := i.find(ctx, p, m); looked == nil && !found {
			p.With(func(s *state.Project) { s.Addresses.Forget(m, ip.ID) })
		}
	}
	if err != nil {
		return err
	}
	ip.PortID = port.ID
	p.With(func(s *state.Project) { s.SetFloatingIP(m, ip, i.now()) })
	return nil
}

// errNoPort returns the error for a floating IP whose port has not been created yet.
func (i *instance) errNoPort() error {
	return fault.New(fault.Conflict, fault.CodeConflict, "server %s has no port yet for its floating IP", i.machine.ServerName)
}
