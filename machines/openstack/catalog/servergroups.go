package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
)

var serverGroupKind = kind{
	name: "server group", notFound: fault.CodeServerGroupNotFound, service: client.Compute, path: "os-server-groups", field: "server_groups", unfiltered: true,
}

// sharedGroupPolicy spreads servers over as many hosts as possible.
const sharedGroupPolicy = "soft-anti-affinity"

// sharedServerGroup returns the cluster's server group, whose name contains the cluster ID, and creates it if it does not exist.
// When two groups exist because the answer to a create request was lost, drover always uses the group with the lower ID.
func (c *Catalog) sharedServerGroup(ctx context.Context) (resource, error) {
	name := "drover-" + c.clusterID
	return lookup(c.cache, serverGroupKind.key(spec.SharedServerGroup), func() (resource, error) {
		all, err := list[resource](ctx, c.session, serverGroupKind, name)
		if err != nil {
			return resource{}, err
		}
		own := slices.DeleteFunc(all, func(t resource) bool { return t.Name != name })
		if len(own) > 0 {
			return slices.MinFunc(own, func(a, b resource) int { return cmp.Compare(a.ID, b.ID) }), nil
		}
		return c.makeServerGroup(ctx, name)
	})
}

func (c *Catalog) makeServerGroup(ctx context.Context, name string) (made resource, err error) {
	making := client.Call{Service: client.Compute, Doing: "creating server group " + name, Version: client.VersionServerGroups}
	err = c.session.Do(ctx, making, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		group := servergroups.CreateOpts{Name: name, Policy: sharedGroupPolicy}
		if !client.VersionServerGroups.WithoutLoss(api.Microversion) {
			group = servergroups.CreateOpts{Name: name, Policies: []string{sharedGroupPolicy}}
		}
		g, err := servergroups.Create(ctx, api, group).Extract()
		if err == nil {
			made.ID = g.ID
		}
		return err
	})
	return made, err
}
