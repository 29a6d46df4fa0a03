package openstack

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/openstack/inventory"
)

const (
	// sweepEvery is how often what is no longer used is looked for.
	sweepEvery = 10 * time.Minute
	// unusedAfter is how long after its last use something counts as no longer used.
	unusedAfter = 30 * time.Minute
)

// sweepAll sweeps now and then until ctx ends.
func (c *Cloud) sweepAll(ctx context.Context) {
	for {
		timer := c.options.Clock.NewTimer(sweepEvery)
		select {
		case <-timer.C():
			c.sweep(ctx)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// sweep drops the Machines that do not exist any more, and what neither a Machine nor a template has used for unusedAfter:
// connections, projects that no connection is to, and what their endpoints and groups have left in the client.
func (c *Cloud) sweep(ctx context.Context) {
	now := c.options.Clock.Now()
	if c.options.Reader != nil {
		if err := c.machines.prune(ctx, c.options.Reader, now); err != nil {
			log.FromContext(ctx).Info("Cannot find out which Machines do not exist any more", "error", err.Error())
		}
	}
	// The configured cloud is always in use.
	c.configured(ctx)
	before, uses := now.Add(-unusedAfter), c.machines.uses()
	c.connections.sweep(uses, before)
	c.client.Sweep(before, func(group string) bool { return uses.groups[group] })
}

// sweep drops the connections that are no longer used, and the projects that no connection is to. A project that is recorded for
// a Machine keeps its last connection whose credentials work, whatever the Machine's own credentials are by now: what was made
// for it must be found and deleted.
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

// drop drops the connections and projects, and returns the connections.
func (c *connections) drop(u uses, before time.Time) (dropped []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, unused := map[*inventory.Project]bool{}, []*connection{}
	for _, conn := range c.byCredentials {
		conn.catalog.Sweep()
		if u.connections[conn] || !conn.isUnused(before) {
			kept[conn.attached()] = true
		} else {
			unused = append(unused, conn)
		}
	}
	slices.SortFunc(unused, func(a, b *connection) int { return b.lastUse().Compare(a.lastUse()) })
	for _, conn := range unused {
		p := conn.attached()
		if _, refused := conn.session.Known(); p != nil && u.recorded[p.Site()] && !kept[p] && refused == nil {
			kept[p] = true
			continue
		}
		delete(c.byCredentials, conn.key)
		dropped = append(dropped, conn)
	}
	for key, f := range c.byProject {
		if !kept[f.Project] {
			f.stop()
			delete(c.byProject, key)
		}
	}
	return dropped
}
