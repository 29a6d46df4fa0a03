package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// EnsurePorts makes one marked port per network, those that are not there yet, and replaces those that an order for a server
// with an unknown outcome may name.
func (i *instance) EnsurePorts(ctx context.Context) error {
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := p.takeQuota(i.subject.uid, i.wants(p, plan)); err != nil {
		return err
	}
	for n := range plan.networks {
		if err := i.ensurePort(ctx, p, plan, n); err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) ensurePort(ctx context.Context, p *project, plan *plan, n int) error {
	m := i.subject.port(n)
	have, known := p.portsOf(i.subject.uid)[n]
	if known && have.doubtful || !known && p.open(m) {
		found, err := i.findPort(ctx, p, m)
		if err != nil {
			return err
		}
		if !found {
			p.forgetPort(i.subject.uid, n)
		}
		have, known = p.portsOf(i.subject.uid)[n]
	}
	switch {
	case known && (!have.ordered || i.facts(p).Server != nil):
		return nil
	case known:
		if err := i.replacePort(ctx, p, n, have); err != nil {
			return err
		}
	}
	if err := p.mayMake(m); err != nil {
		return err
	}
	var made portRow
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating port %d of server %s", n, i.subject.server)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Create(ctx, api, portRequest(i.subject, plan, n)).ExtractInto(&made)
	})
	if err != nil {
		p.attempted(m, err)
		p.refusedQuota(i.subject.uid, err, i.wants(p, plan))
		return err
	}
	p.madeQuota(i.subject.uid, amounts{portCount: 1})
	p.mu.Lock()
	defer p.mu.Unlock()
	port := made.owned()
	port.ordered = false
	p.keepPort(m, port)
	return nil
}

// listMarked lists what has a mark of the Machine.
func listMarked[T any](ctx context.Context, i *instance, l client.Listing) ([]T, error) {
	l.Machine = i.ref()
	rows, err := client.List[T](client.WithGroup(ctx, i.group), i.connection.session, l)
	return rows, unauthorized(i.origin, err)
}

// findPort looks for a port by its exact mark.
func (i *instance) findPort(ctx context.Context, p *project, m mark) (bool, error) {
	rows, err := listMarked[portRow](ctx, i, portListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r portRow) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepPort(m, rows[at].owned())
	return true, nil
}

// EnsureFloatingIP makes a marked floating IP on the first port, when the spec asks for one, and moves it there when that port
// was made again. It never takes an address that it did not make (MC-50), and only the first network gets one (MC-51).
func (i *instance) EnsureFloatingIP(ctx context.Context) error {
	if i.spec != nil && i.spec.FloatingIPPool == "" || i.address != "" {
		return nil
	}
	p, plan, end, err := i.beginMaking(ctx)
	if err != nil {
		return err
	}
	defer end()
	if _, ok := p.ipOf(i.subject.uid); ok {
		return i.moveIP(ctx, p)
	}
	port, ok := p.portsOf(i.subject.uid)[0]
	if !ok {
		return i.withoutPort()
	}
	want := i.wants(p, plan)
	if err := p.takeQuota(i.subject.uid, want); err != nil {
		return err
	}
	m := i.subject.floatingIP()
	if p.open(m) {
		found, err := i.findIP(ctx, p, m)
		if err != nil {
			return err
		}
		if found {
			return i.moveIP(ctx, p)
		}
	}
	if err := p.mayMake(m); err != nil {
		return err
	}
	var made ipRow
	asking := client.Call{Service: client.Network, Doing: fmt.Sprintf("creating the floating IP of server %s from %s", i.subject.server, i.spec.FloatingIPPool)}
	err = i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Create(ctx, api, floatingIPRequest(i.subject, plan, port.id)).ExtractInto(&made)
	})
	if err != nil {
		err = ofPool(err)
		if fault.Is(err, fault.Conflict) && i.arrivedLate(ctx, p, m) {
			return nil
		}
		i.failed(p, m, err)
		p.refusedQuota(i.subject.uid, err, want)
		return err
	}
	p.madeQuota(i.subject.uid, amounts{floatingIPCount: 1})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepIP(m, made.owned())
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
func (i *instance) arrivedLate(ctx context.Context, p *project, m mark) bool {
	found, err := i.findIP(ctx, p, m)
	return err == nil && found
}

// findIP looks for a floating IP by its exact mark.
func (i *instance) findIP(ctx context.Context, p *project, m mark) (bool, error) {
	rows, err := listMarked[ipRow](ctx, i, ipListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r ipRow) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepIP(m, rows[at].owned())
	return true, nil
}

// failed notes an attempt that may have worked. When the cloud refused it, the ports are looked at again; when it does not
// know the flavor or image, what is kept of them is out of date and the next attempt looks them up again.
func (i *instance) failed(p *project, m mark, err error) {
	p.attempted(m, err)
	if fault.Unmatched(fault.Of(err).Code) {
		i.connection.catalog.doubt(i.spec)
	}
	switch fault.Of(err).Class {
	case fault.Invalid, fault.NotFound, fault.Conflict:
		p.doubt(i.subject.uid)
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
	m := i.subject.serverMark()
	if err := p.mayMake(m); err != nil {
		return nil, err
	}
	want := i.wants(p, plan)
	if err := p.takeQuota(i.subject.uid, want); err != nil {
		return nil, err
	}
	made, err := i.createServer(ctx, plan, portIDs, encoded)
	if err != nil {
		i.failed(p, m, err)
		p.refusedQuota(i.subject.uid, err, want)
		return nil, err
	}
	p.madeQuota(i.subject.uid, want)
	p.mu.Lock()
	p.inventory.merge(*made, p.clock.Now())
	p.mu.Unlock()
	p.expectBuild()
	if s := i.facts(p).Server; s != nil {
		return s, nil
	}
	return nil, fault.New(fault.Transient, fault.CodeUnsettled, "server %s was deleted before the answer to its order came", made.ID)
}

// portIDs returns the ports in the order of their networks. Conflict when one of them has to be made first, or again.
func (i *instance) portIDs(p *project, plan *plan) ([]string, error) {
	known := p.portsOf(i.subject.uid)
	var ids []string
	for n := range plan.networks {
		port, ok := known[n]
		if !ok || port.doubtful || port.ordered {
			return nil, fault.New(fault.Conflict, fault.CodeConflict, "port %d of server %s has to be made first", n, i.subject.server)
		}
		ids = append(ids, port.id)
	}
	return ids, nil
}

// createServer asks for the server, and gives its row as far as it is known: Nova's answer holds little more than the ID.
func (i *instance) createServer(ctx context.Context, plan *plan, portIDs []string, userData []byte) (*row, error) {
	var id string
	asking := client.Call{Service: client.Compute, Doing: "creating server " + i.subject.server, Version: createVersion(i.spec)}
	err := i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		request, hints := serverRequest(i.subject, i.spec, plan, portIDs, userData)
		s, err := servers.Create(ctx, api, request, hints).Extract()
		if err == nil {
			id = s.ID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &row{
		ID: id, Name: i.subject.server, Status: statusBuild,
		Metadata: map[string]string{metadataMachineUID: string(i.subject.uid), metadataClusterID: i.subject.cluster},
	}, nil
}
