package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// EnsurePorts makes one marked port per network, those that are not there yet, and replaces those that an order for a server
// with an unknown outcome may name.
func (i *instance) EnsurePorts(ctx context.Context) error {
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := p.ReserveQuota(i.subject.uid, i.wants(p, plan)); err != nil {
		return err
	}
	for n := range plan.networks {
		if err := i.ensurePort(ctx, p, plan, n); err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) ensurePort(ctx context.Context, p *inventory.Project, plan *plan, n int) error {
	m := i.subject.port(n)
	have, known := p.PortsOf(i.subject.uid)[n]
	if known && have.Doubtful || !known && p.HasAttempt(m) {
		found, err := i.findPort(ctx, p, m)
		if err != nil {
			return err
		}
		if !found {
			p.ForgetPort(i.subject.uid, n, have.ID)
		}
		have, known = p.PortsOf(i.subject.uid)[n]
	}
	switch {
	case known && (!have.Ordered || i.facts(p).Server != nil):
		return nil
	case known:
		if err := i.replacePort(ctx, p, n, have); err != nil {
			return err
		}
	}
	if err := p.MayMake(m); err != nil {
		return err
	}
	var made inventory.PortRow
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating port %d of server %s", n, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Create(ctx, api, portRequest(i.subject, plan, n)).ExtractInto(&made)
	})
	if err != nil {
		p.Attempted(m, err)
		p.QuotaRefused(i.subject.uid, err, i.wants(p, plan))
		return err
	}
	p.UseQuota(i.subject.uid, inventory.Amounts{inventory.Ports: 1})
	p.AddPort(m, &made)
	return nil
}

// listMarked lists what has a mark of the Machine.
func listMarked[T any](ctx context.Context, i *instance, l client.Listing) ([]T, error) {
	l.Machine = i.ref()
	rows, err := client.List[T](client.WithGroup(ctx, i.group), i.connection.session, l)
	return rows, unauthorized(i.origin, err)
}

// findPort looks for a port by its exact mark.
func (i *instance) findPort(ctx context.Context, p *inventory.Project, m inventory.OwnerTag) (bool, error) {
	rows, err := listMarked[inventory.PortRow](ctx, i, inventory.PortListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r inventory.PortRow) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.FoundPort(m, &rows[at])
	return true, nil
}

// EnsureFloatingIP creates a floating IP with the owner tag on the first port, when the spec asks for one, and moves it there when
// that port was replaced. It never takes an address that it did not make (MC-50), and only the first network gets one (MC-51).
func (i *instance) EnsureFloatingIP(ctx context.Context) error {
	if i.spec != nil && i.spec.FloatingIPPool == "" || i.machine.FloatingIPID != "" {
		return nil
	}
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	if _, ok := p.FloatingIPOf(i.subject.uid); ok {
		return i.moveIP(ctx, p)
	}
	port, ok := p.PortsOf(i.subject.uid)[0]
	if !ok {
		return i.withoutPort()
	}
	want := i.wants(p, plan)
	if err := p.ReserveQuota(i.subject.uid, want); err != nil {
		return err
	}
	m := i.subject.floatingIP()
	if p.HasAttempt(m) {
		found, err := i.findIP(ctx, p, m)
		if err != nil {
			return err
		}
		if found {
			return i.moveIP(ctx, p)
		}
	}
	if err := p.MayMake(m); err != nil {
		return err
	}
	var made inventory.FloatingIPRow
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating the floating IP of server %s from %s", i.subject.server, i.spec.FloatingIPPool)}
	err = i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Create(ctx, api, floatingIPRequest(i.subject, plan, port.ID)).ExtractInto(&made)
	})
	if err != nil {
		err = ofPool(err)
		if fault.Is(err, fault.Conflict) && i.arrivedLate(ctx, p, m) {
			return nil
		}
		i.failed(p, m, err)
		p.QuotaRefused(i.subject.uid, err, want)
		return err
	}
	p.UseQuota(i.subject.uid, inventory.Amounts{inventory.FloatingIPs: 1})
	p.AddFloatingIP(m, made.Owned())
	return nil
}

// ofPool: Neutron says of a pool without an address what it says of any network without one (seen in Zed).
func ofPool(err error) error {
	e := fault.Of(err)
	if e.Code != fault.CodeAddressesExhausted {
		return err
	}
	pool := *e
	pool.Code, pool.Err = fault.CodeIPPoolExhausted, err
	return &pool
}

// arrivedLate tells whether the port has a floating IP already because a predecessor's order was carried out after we had
// listed them.
func (i *instance) arrivedLate(ctx context.Context, p *inventory.Project, m inventory.OwnerTag) bool {
	found, err := i.findIP(ctx, p, m)
	return err == nil && found
}

// findIP looks for a floating IP by its exact mark.
func (i *instance) findIP(ctx context.Context, p *inventory.Project, m inventory.OwnerTag) (bool, error) {
	rows, err := listMarked[inventory.FloatingIPRow](ctx, i, inventory.FloatingIPListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r inventory.FloatingIPRow) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.AddFloatingIP(m, rows[at].Owned())
	return true, nil
}

// failed notes an attempt that may have worked. When the cloud refused it, the ports are looked at again; when it does not
// know the flavor or image, what is kept of them is out of date and the next attempt looks them up again.
func (i *instance) failed(p *inventory.Project, m inventory.OwnerTag, err error) {
	p.Attempted(m, err)
	if fault.Unmatched(fault.Of(err).Code) {
		i.connection.catalog.doubt(i.spec)
	}
	switch fault.Of(err).Class {
	case fault.Invalid, fault.NotFound, fault.Conflict:
		p.DoubtPorts(i.subject.uid)
	}
}

// EnsureServer returns the server that belongs to the Machine, else makes one on the ports made before.
func (i *instance) EnsureServer(ctx context.Context, userData []byte) (*cloud.Server, error) {
	p, err := i.ready()
	if err != nil {
		return nil, err
	}
	if s := i.facts(p).Server; s != nil {
		return s, nil
	}
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	encoded, err := encodeUserData(userData)
	if err != nil {
		return nil, err
	}
	portIDs, err := i.portIDs(p, plan)
	if err != nil {
		return nil, err
	}
	m := i.subject.serverTag()
	if err := p.MayMake(m); err != nil {
		return nil, err
	}
	want := i.wants(p, plan)
	if err := p.ReserveQuota(i.subject.uid, want); err != nil {
		return nil, err
	}
	made, err := i.createServer(ctx, plan, portIDs, encoded)
	if err != nil {
		i.failed(p, m, err)
		p.QuotaRefused(i.subject.uid, err, want)
		return nil, err
	}
	p.UseQuota(i.subject.uid, want)
	p.AddServer(i.machine.UID, made, i.subject.server)
	if s := i.facts(p).Server; s != nil {
		return s, nil
	}
	return nil, fault.New(fault.Transient, fault.CodeUnsettled, "server %s was deleted before the answer to its order came", made)
}

// portIDs returns the ports in the order of their networks. Conflict when one of them has to be made first, or again.
func (i *instance) portIDs(p *inventory.Project, plan *plan) ([]string, error) {
	known := p.PortsOf(i.subject.uid)
	var ids []string
	for n := range plan.networks {
		port, ok := known[n]
		if !ok || port.Doubtful || port.Ordered {
			return nil, fault.New(fault.Conflict, fault.CodeConflict, "port %d of server %s has to be made first", n, i.subject.server)
		}
		ids = append(ids, port.ID)
	}
	return ids, nil
}

// createServer asks for the server, and returns its ID: Nova's answer holds little more.
func (i *instance) createServer(ctx context.Context, plan *plan, portIDs []string, userData []byte) (id string, err error) {
	asking := client.Call{Service: client.Compute, Doing: "creating server " + i.subject.server, Version: createVersion(i.spec)}
	err = i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		request, hints := serverRequest(i.subject, i.spec, plan, portIDs, userData)
		s, err := servers.Create(ctx, api, request, hints).Extract()
		if err == nil {
			id = s.ID
		}
		return err
	})
	return id, err
}
