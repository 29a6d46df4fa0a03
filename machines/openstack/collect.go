package openstack

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// Tagged returns this cluster's resources in each known project. While drover may not know all projects yet, the result also has
// an entry with Rest set, which represents the unknown projects.
func (c *Cloud) Tagged(ctx context.Context) []cloud.Project {
	c.followConfigured(ctx)
	projects := c.connections.byKey()
	var all []cloud.Project
	for _, key := range slices.Sorted(maps.Keys(projects)) {
		seen := projects[key].Tagged()
		seen.Place = key
		for i := range seen.Resources {
			seen.Resources[i].Place = key
		}
		all = append(all, seen)
	}
	if missing := c.unlisted(ctx); missing != "" {
		all = append(all, cloud.Project{Name: "projects that are not known yet", Unknown: missing, Rest: true})
	}
	return all
}

// Collect deletes a resource in its project, as cloud.Inventory describes.
func (c *Cloud) Collect(ctx context.Context, r cloud.Resource) error {
	p := c.connections.byKey()[r.Place]
	if p == nil {
		return fault.New(fault.Transient, fault.CodeUnsettled, "deleting %s %s: drover no longer has credentials for its project", r.Kind, r.ID)
	}
	return p.Collect(ctx, r)
}

// IsServerGone reports whether the server is proven not to exist in the recorded project or, without a record, in all known projects.
func (c *Cloud) IsServerGone(ctx context.Context, providerID, place string) (bool, error) {
	id := provider.ServerIDOf(providerID)
	if id == "" {
		return false, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%.64q is not the provider ID of an OpenStack server", providerID)
	}
	projects, why := c.mayHave(ctx, place)
	if why != "" {
		return false, fault.New(fault.Transient, fault.CodeUnsettled, "it is not known whether server %s is gone: %s", id, why)
	}
	for _, p := range projects {
		if absent, err := p.ProveAbsent(ctx, id); !absent || err != nil {
			return false, err
		}
	}
	return len(projects) > 0, nil
}

// mayHave returns the projects that may have the server of a Machine with the given [cloud.Remembered].Place. why is the reason when the
// result may lack a project; empty otherwise.
func (c *Cloud) mayHave(ctx context.Context, place string) (projects []*inventory.Project, why string) {
	project, region, recorded := strings.Cut(place, " ")
	if !recorded {
		return c.connections.projects(), c.unlisted(ctx)
	}
	at := state.Site{Project: project, Region: region}
	if conn := c.connectionTo(at); conn != nil {
		return []*inventory.Project{conn.attached()}, ""
	}
	return nil, "drover has no credentials for " + at.String()
}
