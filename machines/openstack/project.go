package openstack

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// startGrace is how long after the start of the process nothing is concluded from an absence in all known projects: until then
// not every Machine has asked for its cloud side, so that some projects are not known.
const startGrace = time.Minute

// findProject chooses the connection of a Machine that is being deleted. cause is why its own spec or credentials cannot be used;
// nil: they can. What was made for the Machine is in the project that its status records, so a connection to this project is used,
// also one with other credentials. Without a record, it is a project that has something with the Machine's UID.
//
// The error is the cause, or the reason why it is not known yet whether something was made. It is of class Invalid only when all
// known projects have been listed and show nothing of the Machine.
func (i *instance) findProject(ctx context.Context, cause error) error {
	if cause == nil {
		// Nothing is made any more, and only what has the Machine's own owner tag is deleted, whatever the spec asks for by now.
		i.access.Wanted = spec.Identity{}
		if _, refused := i.connection.session.Known(); refused == nil && i.connection.in(i.machine.Recorded) {
			return nil
		}
	}
	conn := i.cloud.connections.knowing(i.subject.uid, i.machine.ServerID)
	if i.machine.Recorded != (inventory.Site{}) {
		conn = i.cloud.connectionTo(i.machine.Recorded)
	}
	switch {
	case conn != nil:
		i.connection, i.access, i.unreadable = conn, spec.Access{}, nil
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

// moveProject forgets the recorded project when the Machine's credentials are for another one by now and nothing was made in the
// recorded one.
func (i *instance) moveProject() {
	at := i.machine.Recorded
	if i.machine.Leaving || i.machine.ServerID != "" || len(i.recorded.VolumeIDs) > 0 || at == (inventory.Site{}) || i.connection.attached() == nil || i.connection.in(at) {
		return
	}
	if other := i.cloud.connectionTo(at); other != nil && other.attached().HasNothingOf(i.subject.uid) {
		i.machine.Recorded = inventory.Site{}
	}
}

// connectionTo returns the connection to a project that was used last and whose credentials are not refused; nil when there is none.
func (c *Cloud) connectionTo(at inventory.Site) *connection {
	return c.connections.to(at, client.NormalEndpoint(c.specs.Configured().IdentityEndpoint))
}

// unlisted names for messages a known project that has not been listed yet, so that nothing follows from an absence; empty: all have
// been.
func (c *Cloud) unlisted(ctx context.Context) string {
	if c.options.Clock.Since(c.began) < startGrace {
		return "drover has just started"
	}
	own := c.configured(ctx)
	for _, conn := range c.connections.all() {
		p := conn.attached()
		_, refused := conn.session.Known()
		// A Keystone that does not answer is waited for only when it is the configured cloud's: an author may have named any other.
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
