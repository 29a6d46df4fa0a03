package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// listTagged lists ports or floating IPs for the Machine, with a query for one of its owner tags.
func listTagged[T any](ctx context.Context, i *instance, l client.Listing) ([]T, error) {
	l.By = i.caller()
	rows, err := client.List[T](ctx, i.connection.session, l)
	return rows, i.access.WithOrigin(err)
}

// findPort looks for a port by its exact owner tag.
func (i *instance) findPort(ctx context.Context, p *inventory.Project, m state.Tag) (bool, error) {
	rows, err := listTagged[state.Port](ctx, i, inventory.PortListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r state.Port) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.With(func(s *state.Project) { s.SetPort(m, rows[at], i.now()) })
	return true, nil
}

// findIP looks for a floating IP by its exact owner tag.
func (i *instance) findIP(ctx context.Context, p *inventory.Project, m state.Tag) (bool, error) {
	rows, err := listTagged[state.FloatingIP](ctx, i, inventory.FloatingIPListing(url.Values{"description": {m.String()}}))
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(rows, func(r state.FloatingIP) bool { return r.Description == m.String() })
	if at < 0 {
		return false, nil
	}
	p.With(func(s *state.Project) { s.SetFloatingIP(m, rows[at], i.now()) })
	return true, nil
}

// findAttempts looks for the resources of creates in doubt. If a resource has not appeared after some time, the create
// counts as failed.
func (i *instance) findAttempts(ctx context.Context, p *inventory.Project) error {
	for _, m := range p.ResourcesOf(i.subject.uid).InDoubt {
		var found bool
		var err error
		switch m.Kind {
		case cloud.ResourcePort:
			found, err = i.findPort(ctx, p, m)
		case cloud.ResourceFloatingIP:
			found, err = i.findIP(ctx, p, m)
		}
		if err != nil {
			return err
		}
		if !found {
			// CloseCreate ends the doubt about the create when enough time has passed, and its result is not needed here:
			// Release checks which creates remain in doubt.
			p.With(func(s *state.Project) { _ = s.CloseCreate(m, i.now()) })
		}
	}
	return nil
}

// lookUpPort returns the current port from Neutron; nil when it is gone.
func (i *instance) lookUpPort(ctx context.Context, n int, port state.Port) (*state.Port, error) {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("looking up port %d of server %s", n, i.subject.server)}
	found, err := inventory.LookUp[state.Port](ctx, i.do, call, "port", "ports", port.ID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return found, err
}

// namedIP returns the floating IP that the Machine's annotation names, from Neutron; nil when it does not exist.
func (i *instance) namedIP(ctx context.Context) (*state.FloatingIP, error) {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("looking up floating IP %s of server %s", i.machine.FloatingIPID, i.subject.server)}
	found, err := inventory.LookUp[state.FloatingIP](ctx, i.do, call, "floatingip", "floatingips", i.machine.FloatingIPID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return found, err
}
