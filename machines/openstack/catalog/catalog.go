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

// find returns the only resource of a kind with that name or ID. refine prepares the listed resources for the choice; it may be nil.
func find[T named](ctx context.Context, c *Catalog, k kind, name string, refine func(wanted, []T) ([]T, error)) (T, error) {
	return lookup(c.cache, k.key(name), func() (none T, err error) {
		all, err := list[T](ctx, c.session, k, name)
		if err != nil {
			return none, err
		}
		scope, err := c.session.Scope(ctx)
		if err != nil {
			return none, err
		}
		w := wanted{kind: k, name: name, Scope: scope}
		if refine != nil {
			if all, err = refine(w, all); err != nil {
				return none, err
			}
		}
		return pick(w, all)
	})
}
