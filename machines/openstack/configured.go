package openstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

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

// credentialsEvery is how often the credentials of the configured cloud are read again.
const credentialsEvery = 10 * time.Second

// followCredentials signs in to the configured cloud, and then uses its credentials as they are by now, until ctx ends.
func (c *Cloud) followCredentials(ctx context.Context) {
	if c.options.Reread == nil {
		c.signInEarly(ctx)
		return
	}
	told := c.rereadCredentials(ctx, "")
	c.signInEarly(ctx)
	for {
		timer := c.options.Clock.NewTimer(credentialsEvery)
		select {
		case <-timer.C():
			told = c.rereadCredentials(ctx, told)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// rereadCredentials uses the credentials of the configured cloud as they are by now. After an error those before stay in use. It
// logs an error other than the one that was told last, and returns the text of the error; empty: there was none.
func (c *Cloud) rereadCredentials(ctx context.Context, told string) string {
	now, err := c.options.Reread()
	if err == nil {
		err = c.reconfigure(ctx, now)
	}
	if err == nil {
		return ""
	}
	if err.Error() != told {
		log.FromContext(ctx).Error(err, "Cannot use the credentials of the configured cloud as they are now; those before stay in use")
	}
	return err.Error()
}

// reconfigure replaces the credentials of the configured cloud. Connections, lists and limits belong to its endpoint, so that must
// stay, and so must the project and the region: new servers would be made elsewhere without a word.
func (c *Cloud) reconfigure(ctx context.Context, now client.Credentials) error {
	was := c.specs.Configured()
	switch {
	case now.Key() == was.Key():
		return nil
	case !client.SameEndpoint(now.IdentityEndpoint, was.IdentityEndpoint):
		return fmt.Errorf("the cloud is at %q now, and was at %q when drover started: restart drover", now.IdentityEndpoint, was.IdentityEndpoint)
	case now.Method() == client.ByNothing:
		return errors.New("they have neither an application credential nor a user nor a token")
	}
	if err := c.staysInProject(ctx, now); err != nil {
		return err
	}
	c.specs.Configure(now)
	log.FromContext(ctx).Info("The credentials of the configured cloud have changed, and are used from now on", "method", now.Method())
	c.followConfigured(ctx)
	c.notify(func(interest) bool { return true })
	return nil
}

// staysInProject signs in with new credentials of the configured cloud, and returns an error when that fails or when they are for
// another project or region than those in use. It compares nothing when those in use have never signed in.
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
	was, is := inventory.Site{Project: scope.ProjectID, Region: scope.Region}, inventory.Site{Project: other.ProjectID, Region: other.Region}
	if is != was {
		return fmt.Errorf("they are for %s, and those before are for %s: restart drover to move to another project or region", is, was)
	}
	return nil
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
