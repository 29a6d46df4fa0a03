package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// followConfigured makes the project of the configured cloud a known one, also while no Machine asks for it.
func (c *Cloud) followConfigured(ctx context.Context) {
	if conn := c.configured(ctx); conn != nil {
		c.follow(conn, c.options.Clock.Now())
	}
}

// signInEarly signs in to the configured cloud, so that the first Machine of a new leader does not wait for that, and sets can record
// where a new Machine's resources will be made without a write of its own. What needs the cloud next shows a failure.
func (c *Cloud) signInEarly(ctx context.Context) {
	if conn := c.configured(ctx); conn != nil {
		_, _ = conn.session.Scope(ctx)
	}
}

// configured returns the connection with the configured cloud's credentials; nil when there are none.
func (c *Cloud) configured(ctx context.Context) *connection {
	creds := c.options.Configured
	if creds.IdentityEndpoint == "" || creds.Method() == client.ByNothing {
		return nil
	}
	conn, err := c.connect(ctx, &spec.Access{Credentials: &creds}, nil)
	if err != nil {
		return nil
	}
	return conn
}

// isConfigured reports whether a project is the one that the configured cloud's credentials are for. Any other Keystone can claim
// to have a project of that ID.
func (c *Cloud) isConfigured(ctx context.Context, p *inventory.Project) bool {
	conn := c.configured(ctx)
	if conn == nil || p.Endpoint() != client.NormalEndpoint(conn.session.IdentityEndpoint()) {
		return false
	}
	scope, refused := conn.session.Known()
	return scope != nil && refused == nil && p.Site() == (inventory.Site{Project: scope.ProjectID, Region: scope.Region})
}
