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

// ObserveNow gets the Machine's server by its ID, and then returns the Machine's facts.
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

// StartServer asks Nova to start the Machine's server, and schedules a list of the servers. Nova answers 409 both when the server
// is not shut down any more and when Nova refuses to start it; a GET of the server's state shows which case it is.
func (i *instance) StartServer(ctx context.Context) error {
	p, server, err := i.server()
	if err != nil {
		return err
	}
	call := client.Call{Service: client.Compute, Doing: fmt.Sprintf("starting server %s (%s)", i.machine.ServerName, server.ID)}
	err = i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
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
