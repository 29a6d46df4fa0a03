package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/fault"
)

// flavor finds the flavor in the list of all flavors, which is kept for positiveTTL. A name that a kept list does not have
// is looked for in one more list: the flavor may be newer.
func (c *catalog) flavor(ctx context.Context, name string) (flavor, error) {
	return lookup(c.cache, c.key("flavor", name), func() (flavor, error) {
		began := c.cache.clock.Now()
		w := c.wanted(ctx, "flavor", name, fault.CodeFlavorNotFound)
		all, err := c.flavors(ctx)
		if err != nil {
			return flavor{}, err
		}
		got, missing := pick(w, all)
		if missing == nil || !c.cache.dropOlder(allFlavors, began) {
			return got, missing
		}
		if all, err = c.flavors(ctx); err != nil {
			return flavor{}, err
		}
		return pick(w, all)
	})
}

// allFlavors is the key of the list of all flavors.
const allFlavors = "flavors"

func (c *catalog) flavors(ctx context.Context) ([]flavor, error) {
	return lookup(c.cache, allFlavors, func() ([]flavor, error) {
		return client.List[flavor](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Compute, Doing: "listing flavors", Version: client.VersionFlavors}, Path: "flavors/detail", Field: "flavors",
		})
	})
}

// doubt drops what is kept of the flavor and image that a spec names.
func (c *catalog) doubt(s *Spec) {
	c.cache.drop(allFlavors, c.key("flavor", s.Flavor), c.key("image", s.Image))
}
