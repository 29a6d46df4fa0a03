package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// startGrace is how long after the start of the process nothing is concluded from an absence in all known projects: until
// then not every Machine has named its own.
const startGrace = time.Minute

// findPlace chooses the connection of a Machine that is being deleted. cause is why its own spec or credentials cannot be used;
// nil: they can. What was made for the Machine is in the project that its status records, so that a connection to this project
// is used, whoever's credentials it has. Without a record, a project counts that shows something with the Machine's UID.
//
// The error is the cause, or says why it is not known yet whether something was made. It is of class Invalid only when all
// known projects have been listed and show nothing of the Machine.
func (i *instance) findPlace(ctx context.Context, cause error) error {
	if cause == nil {
		// Nothing is made any more, and only what has the Machine's own mark is deleted, whatever the spec asks for by now.
		i.wanted = wantedIdentity{}
		if _, refused := i.connection.session.Known(); refused == nil && i.connection.in(i.machine.Recorded) {
			return nil
		}
	}
	conn := i.cloud.knowing(i.subject.uid, i.machine.ServerID)
	if i.machine.Recorded != (inventory.Site{}) {
		conn = i.cloud.connectionTo(i.machine.Recorded)
	}
	switch {
	case conn != nil:
		i.connection, i.wanted, i.origin, i.unreadable = conn, wantedIdentity{}, "", nil
		return nil
	case cause == nil:
		return nil
	case i.machine.Recorded != inventory.Site{}:
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"something of this Machine may exist in %s, and drover has no credentials for that project (%s); restore what the spec refers to, or set the annotation %s: \"true\", which leaves it behind",
			i.machine.Recorded, fault.Of(cause).Message, v1alpha1.AnnotationForceDelete)
	case i.machine.ServerID != "", !fault.Is(cause, fault.Invalid) && fault.Of(cause).Code != fault.CodeCredentialsMissing:
		return cause
	}
	i.cloud.followConfigured(ctx)
	if missing := i.cloud.unlisted(ctx); missing != "" {
		e := fault.New(fault.Transient, fault.CodeUnsettled, "it is not known yet whether something was made for this Machine: %s", missing)
		e.RetryAfter, e.Err = inventory.FastPeriod, cause
		return e
	}
	settled := *fault.Of(cause)
	settled.Class = fault.Invalid
	return &settled
}

// moves forgets where the Machine's resources were to be made when its credentials are for another project by now and nothing
// was made in the recorded one.
func (i *instance) moves() {
	at := i.machine.Recorded
	if i.machine.Leaving || i.machine.ServerID != "" || len(i.recorded.VolumeIDs) > 0 || at == (inventory.Site{}) || i.connection.attached() == nil || i.connection.in(at) {
		return
	}
	if other := i.cloud.connectionTo(at); other != nil && other.attached().HasNothingOf(i.subject.uid) {
		i.machine.Recorded = inventory.Site{}
	}
}

// in reports whether the connection is to that project.
func (c *connection) in(at inventory.Site) bool {
	p := c.attached()
	return p != nil && p.Site() == at
}

// connectionTo returns the connection to a project that was used last and whose credentials are not refused; nil when there is
// none. Any Keystone can claim to have a project of that ID: of several the configured cloud's counts, else none.
func (c *Cloud) connectionTo(at inventory.Site) *connection {
	own := client.NormalEndpoint(c.options.Configured.IdentityEndpoint)
	c.mu.Lock()
	defer c.mu.Unlock()
	endpoints := map[string]bool{}
	for _, p := range c.projects {
		if p.Site() == at {
			endpoints[p.Endpoint()] = true
		}
	}
	return c.lastUsed(func(p *inventory.Project) bool {
		return p.Site() == at && (len(endpoints) == 1 || p.Endpoint() == own)
	})
}

// knowing returns a connection to a project that has something with the Machine's mark: the server with that ID, or when that
// is empty any server, port or floating IP, or a create with an unknown outcome. nil: there is none.
func (c *Cloud) knowing(machine types.UID, serverID string) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastUsed(func(p *inventory.Project) bool {
		return p.HasServer(machine, serverID) || serverID == "" && p.HasAddresses(machine)
	})
}

// lastUsed returns, of the connections to projects for which it is true, the one that was used last and whose credentials are
// not refused; nil when there is none. mu must be held.
func (c *Cloud) lastUsed(wanted func(*inventory.Project) bool) (best *connection) {
	var latest time.Time
	for _, conn := range c.connections {
		p := conn.attached()
		if p == nil || !wanted(p) {
			continue
		}
		if _, refused := conn.session.Known(); refused != nil {
			continue
		}
		if used := conn.lastUse(); best == nil || used.After(latest) {
			best, latest = conn, used
		}
	}
	return best
}

// lastUse returns when a Machine asked for the connection last.
func (c *connection) lastUse() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// unlisted says, for people, which known project has not been listed yet, so that nothing follows from an absence; empty: all
// have been.
func (c *Cloud) unlisted(ctx context.Context) string {
	if c.options.Clock.Since(c.began) < startGrace {
		return "drover has just started"
	}
	own := c.configured(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.connections {
		p := conn.attached()
		_, refused := conn.session.Known()
		// A Keystone that does not answer is waited for when it is the configured cloud's. What is not, an author may have named.
		awaited := refused == nil || conn == own && !fault.Is(refused, fault.Auth)
		if p == nil && awaited && conn.isQueued() {
			return fmt.Sprintf("the sign-in at %s has not been answered", conn.session.IdentityEndpoint())
		}
		if p == nil {
			continue
		}
		if listed, _ := p.Listed(); !listed {
			return fmt.Sprintf("the servers of %s have not been listed", p.Site())
		}
	}
	return ""
}

// followConfigured makes the project of the configured cloud a known one, also while no Machine asks for it.
func (c *Cloud) followConfigured(ctx context.Context) {
	if conn := c.configured(ctx); conn != nil {
		c.follow(conn, c.options.Clock.Now())
	}
}

// signInEarly signs in to the configured cloud. So the first Machine of a new leader does not wait for that, and sets can record
// where a new Machine's resources will be made without a write of its own. A failure is shown by what needs the cloud next.
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
	conn, err := c.connect(ctx, &access{creds: &creds}, nil)
	if err != nil {
		return nil
	}
	return conn
}

// PlaceRecord returns what status.providerStatus of a new Machine holds: in which project and region its resources will be made.
// It makes no call to the cloud: nil when the template's credentials have not signed in yet, or cannot be read.
func (c *Cloud) PlaceRecord(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
	s := c.sources(namespace, false)
	if err := s.read(ctx, "template in "+namespace, &t.Spec, t.Metadata.Labels); err != nil {
		return nil
	}
	with, err := readCredentials(ctx, layers{list: s.layers, get: s.dereference}, c.credentialRules())
	if err != nil {
		return nil
	}
	conn, err := c.connect(ctx, with, nil)
	if err != nil {
		return nil
	}
	scope, refused := conn.session.Known()
	if scope == nil || refused != nil || with.wanted.check(scope) != nil {
		return nil
	}
	raw, err := json.Marshal(cloud.ProviderStatus{ProjectID: scope.ProjectID, Region: scope.Region})
	if err != nil {
		return nil
	}
	return &runtime.RawExtension{Raw: raw}
}

// isQueued reports whether the connection is being attached to its project.
func (c *connection) isQueued() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}
