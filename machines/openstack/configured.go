package openstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/spec"
	"github.com/drover-project/drover/machines/periodic"
)

// followConfigured follows the project of the configured cloud, even when no Machine uses it.
func (c *Cloud) followConfigured(ctx context.Context) {
	if conn := c.configured(ctx); conn != nil {
		c.follow(conn)
	}
}

// credentialsEvery is how often the credentials of the configured cloud are read again.
const credentialsEvery = 10 * time.Second

// followCredentials signs in to the configured cloud, and then checks its credentials for changes until ctx ends.
func (c *Cloud) followCredentials(ctx context.Context) {
	if c.options.Reread == nil {
		c.signInEarly(ctx)
		return
	}
	lastError := c.rereadCredentials(ctx, "")
	c.signInEarly(ctx)
	periodic.After(ctx, c.options.Clock, credentialsEvery, func(ctx context.Context) { lastError = c.rereadCredentials(ctx, lastError) })
}

// rereadCredentials reads the credentials of the configured cloud again and uses them. When this fails, the previous credentials
// stay in use, the error is logged unless its text equals lastError, and its text is returned. After success the result is empty.
func (c *Cloud) rereadCredentials(ctx context.Context, lastError string) string {
	now, err := c.options.Reread()
	if err == nil {
		err = c.reconfigure(ctx, now)
	}
	if err == nil {
		return ""
	}
	if err.Error() != lastError {
		log.FromContext(ctx).Error(err, "Cannot use the changed credentials of the configured cloud; the previous ones stay in use")
	}
	return err.Error()
}

// reconfigure replaces the credentials of the configured cloud. Their endpoint must not change, because connections, lists and
// limits belong to the endpoint. The project and the region must not change either, because drover would then create new servers in
// another place unnoticed.
func (c *Cloud) reconfigure(ctx context.Context, now client.Credentials) error {
	was := c.specs.Configured()
	switch {
	case now.Key() == was.Key():
		return nil
	case !client.SameEndpoint(now.IdentityEndpoint, was.IdentityEndpoint):
		return fmt.Errorf("the endpoint is now %q, and was %q when drover started: restart drover to use another cloud", now.IdentityEndpoint, was.IdentityEndpoint)
	case now.Method() == client.ByNothing:
		return errors.New("the credentials have no application credential, no user and no token")
	}
	if err := c.staysInProject(ctx, now); err != nil {
		return err
	}
	c.specs.Configure(now)
	log.FromContext(ctx).Info("Using changed credentials of the configured cloud", "method", now.Method())
	c.followConfigured(ctx)
	c.notify(func(interest) bool { return true })
	return nil
}

// staysInProject signs in with new credentials of the configured cloud. It returns an error when the sign-in fails, or when the new
// credentials are for another project or region than the credentials in use. It compares nothing when the credentials in use have
// never signed in.
func (c *Cloud) staysInProject(ctx context.Context, now client.Credentials) error {
	conn := c.configured(ctx)
	if conn == nil {
		return nil
	}
	scope, _ := conn.session.Known()
	if scope == nil {
		return nil
	}
	next, err := c.connect(ctx, &spec.Access{Credentials: &now}, nil)
	if err != nil {
		return err
	}
	other, err := next.session.Scope(ctx)
	if err != nil {
		return err
	}
	was, is := state.Site{Project: scope.ProjectID, Region: scope.Region}, state.Site{Project: other.ProjectID, Region: other.Region}
	if is != was {
		return fmt.Errorf("the new credentials are for %s, and the previous ones are for %s: restart drover to use another project or region", is, was)
	}
	return nil
}

// signInEarly signs in to the configured cloud ahead of the first use. Then the first Machine of a new leader does not wait for the
// sign-in, and MachineSets can record the place of a new Machine's resources in the write that creates it. An error is ignored,
// because the next use of the cloud returns it.
func (c *Cloud) signInEarly(ctx context.Context) {
	if conn := c.configured(ctx); conn != nil {
		_, _ = conn.session.Scope(ctx)
	}
}

// configured returns the connection with the configured cloud's credentials; nil when there are none.
func (c *Cloud) configured(ctx context.Context) *connection {
	creds := c.specs.Configured()
	if creds.IdentityEndpoint == "" || creds.Method() == client.ByNothing {
		return nil
	}
	conn, err := c.connect(ctx, &spec.Access{Credentials: &creds}, nil)
	if err != nil {
		return nil
	}
	return conn
}

// isConfigured reports whether a project is that of the configured cloud's credentials. The project's ID alone does not prove it:
// any other Keystone can claim the same ID.
func (c *Cloud) isConfigured(ctx context.Context, p *inventory.Project) bool {
	conn := c.configured(ctx)
	if conn == nil || p.Endpoint() != client.NormalEndpoint(conn.session.IdentityEndpoint()) {
		return false
	}
	scope, refused := conn.session.Known()
	return scope != nil && refused == nil && p.Site() == (state.Site{Project: scope.ProjectID, Region: scope.Region})
}
