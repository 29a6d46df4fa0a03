package catalog

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/openstack/client"
)

// Catalog looks up the resources that provider specs name, in one project and region, by name or ID. The project's own resources
// count before those that other projects share with it. When several resources still have the name, it returns an error with their
// IDs. When no resource has the name, it returns an Invalid error, whose code depends on the kind.
type Catalog struct {
	session   *client.Session
	cache     *cache
	clusterID string
}

// New returns a Catalog that makes its requests with a session. clusterID is part of the name of the shared server group.
func New(s *client.Session, c clock.Clock, clusterID string) *Catalog {
	return &Catalog{session: s, cache: newCache(c), clusterID: clusterID}
}

// wanted returns the description of a resource to look up, with project and region when they are known.
func (c *Catalog) wanted(ctx context.Context, k kind, name string) wanted {
	w := wanted{kind: k, name: name}
	if id, err := c.session.Scope(ctx); err == nil {
		w.project, w.region, w.admin = id.ProjectID, id.Region, id.Admin
	}
	return w
}

// find returns the only resource of a kind with that name or ID among the results of list.
func find[T named](ctx context.Context, c *Catalog, k kind, name string, list func(context.Context, *client.Session, kind, string) ([]T, error)) (T, error) {
	return lookup(c.cache, k.key(name), func() (T, error) {
		all, err := list(ctx, c.session, k, name)
		if err != nil {
			var none T
			return none, err
		}
		return pick(c.wanted(ctx, k, name), all)
	})
}
