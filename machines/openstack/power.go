package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// ObserveNow asks for the Machine's server by its ID, and returns what is known then.
func (i *instance) ObserveNow(ctx context.Context) (cloud.Facts, error) {
	p, err := i.ready()
	if err != nil {
		return cloud.Facts{}, err
	}
	if server := i.facts(p).Server; server != nil {
		if err := p.Prove(ctx, i.do, &i.machine, server.ID); err != nil {
			return cloud.Facts{}, err
		}
	}
	return i.facts(p), nil
}

// StartServer asks Nova to start the Machine's server, and has the servers listed soon. Nova answers 409 for a server that is not
// shut down any more, and for one that it refuses to start, so the server's own state decides which of them it was.
func (i *instance) StartServer(ctx context.Context) error {
	p, err := i.ready()
	if err != nil {
		return err
	}
	server := i.facts(p).Server
	if server == nil {
		return fault.New(fault.NotFound, fault.CodeResourceNotFound, "server %s is not there", i.subject.server)
	}
	asking := client.Call{Service: client.Compute, Doing: fmt.Sprintf("starting server %s (%s)", i.subject.server, server.ID)}
	err = i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return servers.Start(ctx, api, server.ID).ExtractErr()
	})
	if !fault.Is(err, fault.RateLimited) {
		p.Kick()
	}
	if !fault.Is(err, fault.Conflict) {
		return err
	}
	f, unanswered := i.ObserveNow(ctx)
	if unanswered == nil && f.Server != nil && f.Server.State != cloud.ServerStopped {
		return nil
	}
	return err
}
