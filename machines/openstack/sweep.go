package openstack

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/periodic"
)

const (
	// sweepEvery is the interval of Cloud.sweep.
	sweepEvery = 10 * time.Minute
	// unusedAfter is the time after which a connection, or the state of an endpoint or group, counts as unused if nothing has
	// used it.
	unusedAfter = 30 * time.Minute
)

// sweepAll calls sweep every sweepEvery until ctx ends.
func (c *Cloud) sweepAll(ctx context.Context) {
	periodic.After(ctx, c.options.Clock, sweepEvery, c.sweep)
}

// sweep removes from memory what drover needs no more: Machines that no longer exist, connections that no Machine and no
// template has used for unusedAfter, and projects that have no connection left. It also removes what the client has not used for
// unusedAfter: the lines and microversions of endpoints, and the request counters of groups without Machines.
func (c *Cloud) sweep(ctx context.Context) {
	now := c.options.Clock.Now()
	if c.options.Reader != nil {
		if err := c.machines.prune(ctx, c.options.Reader, now); err != nil {
			log.FromContext(ctx).Info("Cannot list Machines to remove those that no longer exist", "error", err.Error())
		}
	}
	// This look-up counts as a use, so that the connection of the configured cloud is not removed.
	c.configured(ctx)
	before, uses := now.Add(-unusedAfter), c.machines.uses()
	c.connections.sweep(uses, before)
	c.client.Sweep(before, func(group string) bool { return uses.groups[group] })
}

// sweep removes the connections that are no longer used, and the projects without a connection. A project that is recorded for a
// Machine retains its last connection with working credentials, whatever the Machine's own credentials are now, because the
// Machine's resources there must still be found and deleted.
func (c *connections) sweep(u uses, before time.Time) {
	for _, conn := range c.drop(u, before) {
		p := conn.attached()
		if p == nil {
			continue
		}
		if other := c.other(p, conn.session); other != nil {
			p.Replace(conn.session, other)
		}
	}
}

// drop removes the unused connections and projects, and returns the removed connections.
func (c *connections) drop(u uses, before time.Time) (dropped []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.byUse()
	isUsed := func(conn *connection) bool {
		return u.connections[conn] || conn.queued || !conn.used.Before(before) || !conn.lookedUp.Before(before)
	}
	inUse := map[*inventory.Project]bool{}
	for _, conn := range all {
		if isUsed(conn) {
			inUse[conn.attached()] = true
		}
	}
	for _, conn := range all {
		p := conn.attached()
		_, refused := conn.session.Known()
		switch {
		case isUsed(conn):
		case p != nil && u.recorded[p.Site()] && !inUse[p] && refused == nil:
			inUse[p] = true
		default:
			delete(c.byCredentials, conn.key)
			dropped = append(dropped, conn)
		}
	}
	for key, f := range c.byProject {
		if !inUse[f.Project] {
			f.stop()
			delete(c.byProject, key)
		}
	}
	return dropped
}
