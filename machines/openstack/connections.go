package openstack

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

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
	// project is nil until the first sign-in.
	project atomic.Pointer[inventory.Project]

	// The lock of connections guards these fields: queued is true while the connection waits to be attached to its project, or is being
	// attached, used is when a Machine last used it, and lookedUp when it was last looked up for a Machine, a template or a project.
	queued         bool
	used, lookedUp time.Time
}

// attached returns the project; nil before the first sign-in.
func (c *connection) attached() *inventory.Project { return c.project.Load() }

// in reports whether the connection is attached to that project.
func (c *connection) in(at state.Site) bool {
	p := c.attached()
	return p != nil && p.Site() == at
}

// connections holds the connections of a Cloud, one for each set of credentials, and their projects.
type connections struct {
	clock         clock.PassiveClock
	mu            sync.Mutex
	byCredentials map[string]*connection
	byProject     map[string]followed
}

// followed is a project with the function that stops following it.
type followed struct {
	*inventory.Project
	stop context.CancelFunc
}

func newConnections(c clock.PassiveClock) *connections {
	return &connections{clock: c, byCredentials: map[string]*connection{}, byProject: map[string]followed{}}
}

// get returns the connection for the credentials with that key, and creates it if there is none.
func (c *connections) get(key string, create func() (*connection, error)) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, ok := c.byCredentials[key]
	if !ok {
		var err error
		if conn, err = create(); err != nil {
			return nil, err
		}
		conn.key = key
		c.byCredentials[key] = conn
	}
	conn.lookedUp = c.clock.Now()
	return conn, nil
}

// touch records that the connection is in use and returns it; nil when the connection has been removed meanwhile.
func (c *connections) touch(conn *connection) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn == nil || c.byCredentials[conn.key] != conn {
		return nil
	}
	conn.lookedUp = c.clock.Now()
	return conn
}

// queue records that a Machine uses the connection. It reports whether the caller must now attach the connection to its project.
func (c *connections) queue(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.used = c.clock.Now()
	if conn.queued || conn.attached() != nil {
		return false
	}
	conn.queued = true
	return true
}

// isQueued reports whether the connection waits to be attached to its project, or is being attached now.
func (c *connections) isQueued(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return conn.queued
}

// idle is how long drover retries the sign-in of a connection that no Machine uses.
const idle = 15 * time.Minute

// stopIfIdle ends the sign-in attempts when no Machine has used the connection for the time idle. It reports whether it ended them.
func (c *connections) stopIfIdle(conn *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.queued = c.clock.Since(conn.used) <= idle
	return !conn.queued
}

// attach attaches a connection to the project with that key. If no project has the key, attach calls create to make one, and isNew
// is true.
func (c *connections) attach(conn *connection, key string, create func() followed) (p *inventory.Project, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byProject[key]
	if !ok {
		known = create()
		c.byProject[key] = known
	}
	conn.project.Store(known.Project)
	conn.queued = false
	return known.Project, !ok
}

// all returns the connections, the most recently used first.
func (c *connections) all() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byUse()
}

// byUse returns the connections, the most recently used first. The caller holds mu.
func (c *connections) byUse() []*connection {
	return slices.SortedFunc(maps.Values(c.byCredentials), func(a, b *connection) int { return b.used.Compare(a.used) })
}

// projects returns the projects, unsorted.
func (c *connections) projects() (all []*inventory.Project) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.byProject {
		all = append(all, f.Project)
	}
	return all
}

// byKey returns the projects by the keys that were passed to attach.
func (c *connections) byKey() map[string]*inventory.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]*inventory.Project, len(c.byProject))
	for key, f := range c.byProject {
		all[key] = f.Project
	}
	return all
}

// toProject returns the most recently used connection to a project and region; nil when there is none. It ignores connections whose
// credentials are refused. Any Keystone can claim to have a project with this ID. If several Keystones do, toProject returns only a
// connection to that of the configured cloud, whose URL is own.
func (c *connections) toProject(at state.Site, own string) *connection {
	// Read the connections before the projects. A project is stored before a connection is attached to it, so the loop below counts
	// the Keystone of each of these connections.
	all := c.all()
	endpoints := map[string]bool{}
	for _, p := range c.projects() {
		if p.Site() == at {
			endpoints[p.Endpoint()] = true
		}
	}
	return c.touch(lastUsed(all, func(p *inventory.Project) bool {
		return p.Site() == at && (endpoints[p.Endpoint()] && len(endpoints) == 1 || p.Endpoint() == own)
	}))
}

// ofMachine returns a connection to a project that has a resource with the Machine's owner tag: the server serverID or, when
// serverID is empty, any server, port, floating IP or unresolved create. It returns nil when there is none.
func (c *connections) ofMachine(machine types.UID, serverID string) *connection {
	return c.touch(lastUsed(c.all(), func(p *inventory.Project) (has bool) {
		p.With(func(s *state.Project) {
			has = s.Servers.Has(machine, serverID) || serverID == "" && s.HasAddresses(machine)
		})
		return has
	}))
}

// lastUsed returns the most recently used connection whose project satisfies wanted and whose credentials are not refused; nil when
// there is none.
func lastUsed(all []*connection, wanted func(*inventory.Project) bool) *connection {
	for _, conn := range all {
		p := conn.attached()
		if p == nil || !wanted(p) {
			continue
		}
		if _, refused := conn.session.Known(); refused == nil {
			return conn
		}
	}
	return nil
}

// other returns the session that replaces the session than when its credentials fail or are no longer used: the session of the
// project's most recently used other connection; nil when there is none.
func (c *connections) other(p *inventory.Project, than *client.Session) *client.Session {
	for _, conn := range c.all() {
		if conn.session != than && conn.attached() == p {
			return conn.session
		}
	}
	return nil
}
