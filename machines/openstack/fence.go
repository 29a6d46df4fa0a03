package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// A port does not keep a second server from being made: while the port is unbound Nova accepts every order that names it, and
// its clean-up of the order that fails unbinds the port of the server that works. So no order names a port that an earlier order
// with an unknown outcome may name. The port is replaced first: an order for a port that is gone is refused, or fails alone
// (docs/decisions/0040).

// replacePort deletes a port that an order with an unknown outcome may name, once that order is settled and the port is seen
// unbound; the caller makes it again. Transient while the order is not settled or the port is bound to a server.
//
// The old port is deleted before the new one is made, so at most one port has the owner tag, wherever a crash happens: a successor
// finds the old port, or none, or a new one that it did not make itself, and starts again from there.
func (i *instance) replacePort(ctx context.Context, p *inventory.Project, n int, port inventory.Port) error {
	if err := p.MayMake(i.subject.serverTag()); err != nil {
		return err
	}
	found, err := i.lookUpPort(ctx, n, port)
	if err != nil {
		return err
	}
	if found != nil {
		if err := p.FoundUnbound(i.subject.port(n), found); err != nil {
			return err
		}
		if err := i.askToDeletePort(ctx, n, port); err != nil {
			return err
		}
	}
	if err := i.findIPOf(ctx, p, n); err != nil {
		return err
	}
	p.ForgetPort(i.subject.uid, n, port.ID)
	return nil
}

// findIPOf looks for a floating IP that another process made on a port that is gone now, and that no list has shown. Without this
// look a second one would be made, since the new port has none.
func (i *instance) findIPOf(ctx context.Context, p *inventory.Project, n int) error {
	if _, known := p.FloatingIPOf(i.subject.uid); known || n > 0 || i.machine.FloatingIPID != "" || i.spec.FloatingIPPool == "" {
		return nil
	}
	_, err := i.findIP(ctx, p, i.subject.floatingIP())
	return err
}

// moveIP puts the Machine's floating IP on its first port, when it is on another one or on none: a port that was made again has
// a new ID, and Neutron takes the address off the port that was deleted.
func (i *instance) moveIP(ctx context.Context, p *inventory.Project) error {
	ip, _ := p.FloatingIPOf(i.subject.uid)
	port, ok := p.PortsOf(i.subject.uid)[0]
	if !ok {
		return i.withoutPort()
	}
	if ip.PortID == port.ID {
		return nil
	}
	m := i.subject.floatingIP()
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("putting floating IP %s on the port of server %s", ip.Address, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{PortID: &port.ID}).Err
	})
	if fault.Is(err, fault.NotFound) {
		// Either the port or the address is gone.
		p.DoubtPorts(i.subject.uid)
		if found, looked := i.findIP(ctx, p, m); looked == nil && !found {
			p.ForgetFloatingIP(i.subject.uid)
		}
	}
	if err != nil {
		return err
	}
	ip.PortID = port.ID
	p.AddFloatingIP(m, ip)
	return nil
}

// withoutPort returns the error when a floating IP is to be put on a port that has not been made.
func (i *instance) withoutPort() error {
	return fault.New(fault.Conflict, fault.CodeConflict, "server %s has no port yet that could take a floating IP", i.subject.server)
}
