package openstack

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// connections holds the connections of a Cloud, one for each set of credentials, and the projects that they are for.
type connections struct {
	clock         clock.PassiveClock
	mu            sync.Mutex
	byCredentials map[string]*connection
	byProject     map[string]followed
}

// followed is a project, and what ends following it.
type followed struct {
	*inventory.Project
	stop context.CancelFunc
}

func newConnections(c clock.PassiveClock) *connections {
	return &connections{clock: c, byCredentials: map[string]*connection{}, byProject: map[string]followed{}}
}

// get returns the connection of some credentials, which are known by their key. It is made when there is none.
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
	conn.keep(c.clock.Now())
	return conn, nil
}

// keep returns the connection, which is in use now; nil when it was dropped meanwhile.
func (c *connections) keep(conn *connection) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn == nil || c.byCredentials[conn.key] != conn {
		return nil
	}
	conn.keep(c.clock.Now())
	return conn
}

// attach puts a connection on the project with that key, and reports whether the project was made now.
func (c *connections) attach(conn *connection, key string, create func() followed) (p *inventory.Project, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byProject[key]
	if !ok {
		known = create()
		c.byProject[key] = known
	}
	conn.attach(known.Project)
	return known.Project, !ok
}

// all returns the connections in no order.
func (c *connections) all() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.byCredentials))
}

// projects returns the projects in no order.
func (c *connections) projects() (all []*inventory.Project) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.byProject {
		all = append(all, f.Project)
	}
	return all
}

// byKey returns the projects by the keys that attach was called with.
func (c *connections) byKey() map[string]*inventory.Project {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]*inventory.Project, len(c.byProject))
	for key, f := range c.byProject {
		all[key] = f.Project
	}
	return all
}

// to returns the connection to a project that was used last and whose credentials are not refused; nil when there is none. Any
// Keystone can claim to have a project of that ID: of several the one at the own endpoint counts, else none.
func (c *connections) to(at inventory.Site, own string) *connection {
	// The connections are read first: a project stands here before a connection is attached to it, so that each Keystone with
	// a connection below is counted.
	all := c.all()
	endpoints := map[string]bool{}
	for _, p := range c.projects() {
		if p.Site() == at {
			endpoints[p.Endpoint()] = true
		}
	}
	return c.keep(lastUsed(all, func(p *inventory.Project) bool {
		return p.Site() == at && (endpoints[p.Endpoint()] && len(endpoints) == 1 || p.Endpoint() == own)
	}))
}

// knowing returns a connection to a project that has something with the Machine's owner tag: the server with that ID, or when that is
// empty any server, port or floating IP, or a create with an unknown outcome. nil: there is none.
func (c *connections) knowing(machine types.UID, serverID string) *connection {
	return c.keep(lastUsed(c.all(), func(p *inventory.Project) bool {
		return p.HasServer(machine, serverID) || serverID == "" && p.HasAddresses(machine)
	}))
}

// lastUsed returns, of these connections to projects for which wanted is true, the one that was used last and whose credentials are not
// refused; nil when there is none.
func lastUsed(all []*connection, wanted func(*inventory.Project) bool) (best *connection) {
	var latest time.Time
	for _, conn := range all {
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

// other returns the session of the connection to the project that was used last, except the given one, whose credentials fail; nil
// when there is none.
func (c *connections) other(p *inventory.Project, than *client.Session) (best *client.Session) {
	var latest time.Time
	for _, conn := range c.all() {
		if conn.session == than || conn.attached() != p {
			continue
		}
		if used := conn.lastUse(); best == nil || used.After(latest) {
			best, latest = conn.session, used
		}
	}
	return best
}
