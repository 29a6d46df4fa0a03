package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
)

var serverGroupKind = kind{"server group", fault.CodeServerGroupNotFound, client.Compute, "os-server-groups", "server_groups"}

func (c *Catalog) serverGroup(ctx context.Context, name string) (thing, error) {
	return find(ctx, c, serverGroupKind, name, unfiltered[thing])
}

// sharedGroupPolicy spreads servers over hosts as far as there are hosts.
const sharedGroupPolicy = "soft-anti-affinity"

// sharedServerGroup finds the cluster's group by its name, which holds the cluster id, or makes it once. When two have
// been made, by a create whose answer got lost, the one with the lower ID counts for everybody.
func (c *Catalog) sharedServerGroup(ctx context.Context) (thing, error) {
	name := "drover-" + c.clusterID
	return lookup(c.cache, serverGroupKind.key(spec.SharedServerGroup), func() (thing, error) {
		all, err := unfiltered[thing](ctx, c.session, serverGroupKind, name)
		if err != nil {
			return thing{}, err
		}
		own := slices.DeleteFunc(all, func(t thing) bool { return t.Name != name })
		if len(own) > 0 {
			return slices.MinFunc(own, func(a, b thing) int { return cmp.Compare(a.ID, b.ID) }), nil
		}
		return c.makeServerGroup(ctx, name)
	})
}

func (c *Catalog) makeServerGroup(ctx context.Context, name string) (thing, error) {
	var body struct {
		Group thing `json:"server_group"`
	}
	making := client.Call{Service: client.Compute, Doing: "creating server group " + name, Version: client.VersionServerGroups}
	err := c.session.Do(ctx, making, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		group := map[string]any{"name": name, "policy": sharedGroupPolicy}
		if !client.VersionServerGroups.WithoutLoss(api.Microversion) {
			group = map[string]any{"name": name, "policies": []string{sharedGroupPolicy}}
		}
		_, err := api.Post(ctx, api.ServiceURL("os-server-groups"), map[string]any{"server_group": group}, &body,
			&gophercloud.RequestOpts{OkCodes: []int{200}})
		return err
	})
	return body.Group, err
}
