package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/drover-project/drover/machines/fault"
)

// lineLength is taken for the mean length of a console line, since Nova counts lines and we count bytes.
const lineLength = 40

// ConsoleOutput returns the last bytes of the console of the Machine's server. NotFound without a server.
func (i *instance) ConsoleOutput(ctx context.Context, bytes int) (string, error) {
	p, err := i.ready()
	if err != nil {
		return "", err
	}
	server := i.facts(p).Server
	if server == nil {
		return "", fault.New(fault.NotFound, fault.CodeResourceNotFound, "server %s is not there", i.subject.server)
	}
	text := ""
	asking := client.Call{Service: client.Compute, Doing: "reading the console of server " + i.subject.server}
	err = i.do(ctx, asking, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		text, err = servers.ShowConsoleOutput(ctx, api, server.ID, servers.ShowConsoleOutputOpts{Length: bytes/lineLength + 1}).Extract()
		return err
	})
	return text[max(0, len(text)-bytes):], err
}
