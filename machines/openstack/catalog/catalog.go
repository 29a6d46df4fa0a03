package catalog

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/openstack/client"
)

// Catalog looks up what provider specs name, in one project and region. Everything is found by name or ID. The error for a name that
// several things have lists their IDs; the error for a name that nothing has is Invalid, with a code for each kind.
type Catalog struct {
	session   *client.Session
	cache     *cache
	clusterID string
}

// New returns a Catalog that asks with a session. clusterID is part of the name of the shared server group.
func New(s *client.Session, c clock.Clock, clusterID string) *Catalog {
	return &Catalog{session: s, cache: newCache(c), clusterID: clusterID}
}

// wanted returns what is looked for, with the region when it is known.
func (c *Catalog) wanted(ctx context.Context, k kind, name string) wanted {
	w := wanted{kind: k, name: name}
	if id, err := c.session.Scope(ctx); err == nil {
		w.region = id.Region
	}
	return w
}

// find looks up the one thing of a kind with that name or ID, in what list returns.
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
