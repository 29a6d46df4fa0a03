package openstack

import (
	"context"
	"net/url"
	"slices"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// find looks for a port or a floating IP by its exact owner tag, and records it when it exists.
func (i *instance) find(ctx context.Context, p *inventory.Project, m state.Tag) (found bool, err error) {
	query := url.Values{"description": {m.String()}}
	if m.Kind == cloud.ResourcePort {
		row, err := findTagged(ctx, i, inventory.PortListing(query), func(r state.Port) bool { return r.Description == m.String() })
		if row != nil {
			p.With(func(s *state.Project) { s.SetPort(m, *row, i.now()) })
		}
		return row != nil, err
	}
	row, err := findTagged(ctx, i, inventory.FloatingIPListing(query), func(r state.FloatingIP) bool { return r.Description == m.String() })
	if row != nil {
		p.With(func(s *state.Project) { s.SetFloatingIP(m, *row, i.now()) })
	}
	return row != nil, err
}

// findTagged lists ports or floating IPs, and returns the row with the owner tag; nil when there is none.
func findTagged[T any](ctx context.Context, i *instance, l client.Listing, isOwn func(T) bool) (*T, error) {
	l.By = i.caller()
	rows, err := client.List[T](ctx, i.connection.session, l)
	if at := slices.IndexFunc(rows, isOwn); err == nil && at >= 0 {
		return &rows[at], nil
	}
	return nil, i.access.WithOrigin(err)
}

// findAttempts looks for the resources of creates in doubt. If a resource has not appeared after some time, the create
// counts as failed.
func (i *instance) findAttempts(ctx context.Context, p *inventory.Project) error {
	for _, m := range p.ResourcesOf(i.machine.UID).InDoubt {
		var found bool
		var err error
		if m.Kind != cloud.ResourceServer {
			found, err = i.find(ctx, p, m)
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

// lookUp returns a resource from the cloud by its ID; nil when it does not exist. kind is the resource's name in the service's API.
func lookUp[T any](ctx context.Context, i *instance, s client.Service, doing, kind, id string) (*T, error) {
	found, err := inventory.LookUp[T](ctx, i.do, client.Call{Service: s, Doing: doing}, kind, kind+"s", id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return found, err
}
