package catalog

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
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

// Forget drops what is cached of the flavor and image that a spec names, so that the next Resolve looks them up again.
func (c *Catalog) Forget(s *spec.Spec) {
	c.cache.drop(allFlavors, c.key("flavor", s.Flavor), c.key("image", s.Image))
}

// key returns the key of the cache for a thing of that kind.
func (c *Catalog) key(kind, name string) string { return kind + " " + name }

// wanted returns what is looked for, with the region when it is known.
func (c *Catalog) wanted(ctx context.Context, kind, name string, code fault.Code) wanted {
	w := wanted{kind: kind, name: name, code: code}
	if id, err := c.session.Scope(ctx); err == nil {
		w.region = id.Region
	}
	return w
}
