package openstack

import (
	"context"
	"strings"
	"sync"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// follow records that the connection is used, and queues it for attach unless it is attached or queued. Once it is attached,
// drover lists the resources of its project.
func (c *Cloud) follow(conn *connection) {
	if c.connections.queue(conn) {
		c.joining.Add(conn)
	}
}

// attach signs in, with retries, and then attaches the connection to its project.
func (c *Cloud) attach(ctx context.Context, conn *connection, wg *sync.WaitGroup) {
	var lastErr error
	for ctx.Err() == nil {
		id, err := conn.session.Scope(ctx)
		if err == nil {
			c.join(ctx, conn, id, wg)
			return
		}
		if lastErr == nil {
			c.notify(func(i interest) bool { return i.connection == conn })
		}
		lastErr = err
		if c.connections.stopIfIdle(conn) {
			return
		}
		timer := c.options.Clock.NewTimer(max(client.SignInAgain, fault.Of(err).RetryAfter))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// join attaches the connection to the project of its token. If drover does not follow this project yet, join starts to list the
// project's resources.
func (c *Cloud) join(ctx context.Context, conn *connection, id *client.Scope, wg *sync.WaitGroup) {
	endpoint := client.NormalEndpoint(conn.session.IdentityEndpoint())
	key := strings.Join([]string{endpoint, id.Region, id.ProjectID}, " ")
	following, stop := context.WithCancel(ctx)
	p, isNew := c.connections.attach(conn, key, func() followed {
		return followed{stop: stop, Project: inventory.New(inventory.Options{
			Clock: c.options.Clock, Session: conn.session, Endpoint: endpoint, Site: state.Site{Project: id.ProjectID, Region: id.Region},
			Cluster:  state.Cluster(c.options.ClusterID),
			Machines: c.machines, Reader: c.options.Reader,
			Changed: c.changed, Other: c.connections.other,
		})}
	})
	p.Use(conn.session)
	if isNew {
		wg.Go(func() { p.Run(following) })
		return
	}
	stop()
	c.notify(func(i interest) bool { return i.connection == conn })
}
