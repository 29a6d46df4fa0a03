package openstack

import (
	"sync"
	"time"

	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// connection is a session of one set of credentials, with its catalog and its project.
type connection struct {
	session *client.Session
	catalog *catalog.Catalog
	// key identifies the credentials.
	key string

	mu sync.Mutex
	// project is nil until the first sign-in.
	project *inventory.Project
	// queued is true while the connection waits to be attached to its project, or is being attached. used is when a Machine
	// last used the connection.
	queued bool
	used   time.Time
	// lookedUp is when the connection was last looked up, for a Machine or a template.
	lookedUp time.Time
}

// attached returns the project; nil before the first sign-in.
func (c *connection) attached() *inventory.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.project
}

// in reports whether the connection is attached to that project.
func (c *connection) in(at state.Site) bool {
	p := c.attached()
	return p != nil && p.Site() == at
}

// lastUse returns when a Machine last used the connection.
func (c *connection) lastUse() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// isQueued reports whether the connection waits to be attached to its project, or is being attached now.
func (c *connection) isQueued() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

// use records that a Machine uses the connection. It reports whether the caller must now attach the connection to its project.
func (c *connection) use(now time.Time) (attach bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = now
	attach = c.project == nil && !c.queued
	c.queued = c.queued || attach
	return attach
}

// touch records that the connection was looked up.
func (c *connection) touch(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookedUp = now
}

// isUnused reports whether nothing has used or looked up the connection since that time.
func (c *connection) isUnused(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.queued && c.used.Before(since) && c.lookedUp.Before(since)
}

// attach sets the project of the connection. Then drover stops its attempts to sign in with the connection's credentials.
func (c *connection) attach(p *inventory.Project) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.project, c.queued = p, false
}

// idle is how long drover retries the sign-in of a connection that no Machine uses.
const idle = 15 * time.Minute

// stopIfIdle ends the sign-in attempts when no Machine has used the connection for the time idle. It reports whether it ended
// them.
func (c *connection) stopIfIdle(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = now.Sub(c.used) <= idle
	return !c.queued
}
