package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// Observe returns what is known, from memory. It asks for one server by its ID only when that server is named or known and
// no list shows it, or a port is bound to it, for only so an absence becomes a proof, and once when it is in ERROR and the
// list does not say why.
func (i *instance) Observe(ctx context.Context) (cloud.Facts, error) {
	p, err := i.project()
	if p == nil {
		return cloud.Facts{}, err
	}
	if err := p.Adopt(ctx, &i.machine); err != nil {
		return cloud.Facts{}, err
	}
	if id, required := p.InDoubt(&i.machine); id != "" {
		if err := p.Prove(ctx, i.do, &i.machine, id); err != nil && required {
			return cloud.Facts{}, err
		}
	}
	f := i.facts(p)
	if i.unnamed != nil && f.Server == nil && !i.machine.Leaving {
		return cloud.Facts{}, i.unnamed
	}
	return f, nil
}

// facts returns what is known of the Machine, from memory.
func (i *instance) facts(p *inventory.Project) cloud.Facts {
	f := p.Facts(&i.machine)
	f.Leftovers = f.Leftovers || len(i.recorded.VolumeIDs) > 0
	if f.Server != nil {
		f.Server.ProviderID = i.providerID(f.Server.ID)
	}
	for _, s := range f.Duplicates {
		s.ProviderID = i.providerID(s.ID)
	}
	return f
}
