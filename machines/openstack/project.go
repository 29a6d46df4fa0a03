package openstack

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// startGrace is the time after the start of the process during which drover does not conclude that a Machine has no resources because no
// known project has any. Not every Machine has been reconciled by then, so some projects may still be unknown.
const startGrace = time.Minute

// withoutCredentials are the codes of errors that mean that a Machine has no credentials with which a call could be made.
var withoutCredentials = []fault.Code{fault.CodeCredentialsMissing, fault.CodeUnauthorized}

// findProject chooses the connection for a Machine that is being deleted. cause is the reason why the Machine's own spec or credentials
// cannot be used; nil when they can be used. The Machine's resources are in the project that its status records, so findProject uses any
// connection to this project, even one with other credentials. Without a record, it uses a project that has a resource with the
// Machine's UID.
//
// The error is cause, or the reason why it is not known yet whether the Machine has resources. It has class Invalid only when all
// known projects have been listed and have no resource of the Machine.
func (i *instance) findProject(ctx context.Context, cause error) error {
	if cause == nil {
		// The Machine is being deleted, so nothing is created for it, and only resources with its own owner tag are deleted. So the
		// identity that its spec names need not be compared with that of the configured cloud's user.
		i.access.Wanted = spec.Identity{}
		_, refused := i.connection.session.Known()
		switch {
		case refused == nil && i.connection.in(i.machine.Recorded):
			return nil
		case refused != nil && fault.Of(refused).Code == fault.CodeUnauthorized && i.machine.ServerID == "" && i.machine.Recorded == (state.Site{}):
			// Nothing is made before the project is recorded, and without credentials there was no project to record.
			cause = i.access.WithOrigin(refused)
		}
	}
	// The credentials of the configured cloud may be the only ones for the project, although no other Machine uses them.
	i.cloud.followConfigured(ctx)
	conn := i.cloud.connections.ofMachine(i.machine.UID, i.machine.ServerID)
	if i.machine.Recorded != (state.Site{}) {
		conn = i.cloud.connectionTo(i.machine.Recorded)
	}
	switch {
	case conn != nil:
		i.connection, i.access, i.unreadable = conn, spec.Access{}, nil
		return nil
	case cause == nil:
		return nil
	case i.machine.Recorded != state.Site{}:
		return fault.New(fault.Auth, fault.CodeCredentialsMissing,
			"resources of this Machine may exist in %s, and drover has no credentials for that project (%s); restore what the spec refers to, or set the annotation %s: \"true\" to delete the Machine and leave them behind",
			i.machine.Recorded, fault.Of(cause).Message, v1alpha1.AnnotationForceDelete)
	case i.machine.ServerID != "", !fault.Is(cause, fault.Invalid) && !slices.Contains(withoutCredentials, fault.Of(cause).Code):
		return cause
	}
	if missing := i.cloud.unlisted(ctx); missing != "" {
		e := state.Unsettled("it is not known yet whether resources of this Machine exist: %s", missing)
		e.Err = cause
		return e
	}
	settled := *fault.Of(cause)
	settled.Class = fault.Invalid
	return &settled
}

// moveProject clears the recorded project when the Machine's credentials are for another project now, and the recorded project
// has no resource of the Machine.
func (i *instance) moveProject() {
	at := i.machine.Recorded
	if i.machine.Leaving || i.machine.ServerID != "" || len(i.recorded.VolumeIDs) > 0 || at == (state.Site{}) || i.connection.attached() == nil || i.connection.in(at) {
		return
	}
	if other := i.cloud.connectionTo(at); other != nil {
		other.attached().With(func(s *state.Project) {
			if s.HasNothingOf(i.machine.UID) {
				i.machine.Recorded = state.Site{}
			}
		})
	}
}

// connectionTo returns the most recently used connection to a project, of the connections whose credentials are not refused; nil
// when there is none.
func (c *Cloud) connectionTo(at state.Site) *connection {
	return c.connections.toProject(at, client.NormalEndpoint(c.specs.Configured().IdentityEndpoint))
}

// unlisted returns, for messages, why an absence from all projects proves nothing yet: a known project has not been listed, or the
// process has just started. It returns "" when all known projects have been listed.
func (c *Cloud) unlisted(ctx context.Context) string {
	if c.options.Clock.Since(c.began) < startGrace {
		return "drover has just started"
	}
	own := c.configured(ctx)
	for _, conn := range c.connections.all() {
		p := conn.attached()
		_, refused := conn.session.Known()
		// A provider spec can name any Keystone. When a Keystone does not answer, drover waits for it only if it belongs to the
		// configured cloud. Otherwise any author of a Machine could block the deletion of other Machines.
		awaited := refused == nil || conn == own && !fault.Is(refused, fault.Auth)
		if p == nil && awaited && c.connections.isQueued(conn) {
			return fmt.Sprintf("%s has not answered the sign-in yet", conn.session.IdentityEndpoint())
		}
		if p == nil {
			continue
		}
		var listed bool
		p.With(func(s *state.Project) { listed, _ = s.Listed() })
		if !listed {
			return fmt.Sprintf("the servers of %s have not been listed yet", p.Site())
		}
	}
	return ""
}
