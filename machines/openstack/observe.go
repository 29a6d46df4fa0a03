package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Observe returns the Machine's facts from memory, after at most one GET by ID. It makes this call when the lists do not show a
// server that the Machine names or had, or the server to which one of the Machine's ports is bound, because only an answer to a
// GET proves an absence. It also makes this call once for a server in ERROR whose fault is not in the list.
func (i *instance) Observe(ctx context.Context) (cloud.Facts, error) {
	p, err := i.project()
	if p == nil {
		return cloud.Facts{}, err
	}
	if err := p.Adopt(ctx, &i.machine); err != nil {
		return cloud.Facts{}, err
	}
	var id string
	var required bool
	p.With(func(s *state.Project) { id, required = s.InDoubt(&i.machine) })
	if id != "" {
		if err := p.Prove(ctx, i.do, &i.machine, id); err != nil && required {
			return cloud.Facts{}, err
		}
	}
	f := i.facts(p)
	if i.badProviderID != nil && f.Server == nil && !i.machine.Leaving {
		return cloud.Facts{}, i.badProviderID
	}
	return f, nil
}

// facts returns, from memory, what is known of the Machine's resources.
func (i *instance) facts(p *inventory.Project) (f cloud.Facts) {
	p.With(func(s *state.Project) { f = s.Facts(&i.machine) })
	f.Leftovers = f.Leftovers || len(i.recorded.VolumeIDs) > 0
	if f.Server != nil {
		f.Server.ProviderID = i.providerID(f.Server.ID)
	}
	for _, s := range f.Duplicates {
		s.ProviderID = i.providerID(s.ID)
	}
	return f
}
