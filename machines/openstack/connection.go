package openstack

import (
	"sync"
	"time"

	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// connection is a session with the catalog of what it can see, and the project that it is for.
type connection struct {
	session *client.Session
	catalog *catalog.Catalog
	// key is that of the credentials.
	key string

	mu sync.Mutex
	// project is nil until the first sign-in.
	project *inventory.Project
	// queued is true while the connection is being attached to its project. used is when a Machine asked for it last.
	queued bool
	used   time.Time
	// kept is when the connection was last looked up, for a Machine or a template.
	kept time.Time
}

// attached returns the project; nil before the first sign-in.
func (c *connection) attached() *inventory.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.project
}

// in reports whether the connection is to that project.
func (c *connection) in(at inventory.Site) bool {
	p := c.attached()
	return p != nil && p.Site() == at
}

// lastUse returns when a Machine asked for the connection last.
func (c *connection) lastUse() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// isQueued reports whether the connection is being attached to its project.
func (c *connection) isQueued() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

// use notes that a Machine asked for the connection. It reports whether the connection is to be attached to its project now.
func (c *connection) use(now time.Time) (attach bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = now
	attach = c.project == nil && !c.queued
	c.queued = c.queued || attach
	return attach
}

// keep notes that the connection was looked up.
func (c *connection) keep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = now
}

// isUnused reports whether nothing has used the connection since a time.
func (c *connection) isUnused(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.queued && c.used.Before(since) && c.kept.Before(since)
}

// attach ends the attempts to sign in with the project that the connection is for.
func (c *connection) attach(p *inventory.Project) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.project, c.queued = p, false
}

// idle is how long a connection that cannot sign in is tried without a Machine asking for it.
const idle = 15 * time.Minute

// giveUp ends the attempts to sign in when no Machine has asked for the connection lately. It reports whether it did.
func (c *connection) giveUp(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = now.Sub(c.used) <= idle
	return !c.queued
}
