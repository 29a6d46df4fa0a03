package openstack

import (
	"context"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// lineLength is the assumed mean length of a console line in bytes. drover converts the wanted number of bytes into the
// number of lines that it requests from Nova.
const lineLength = 40

// ConsoleOutput returns the last bytes of the console of the Machine's server. It returns NotFound when there is no server.
func (i *instance) ConsoleOutput(ctx context.Context, bytes int) (string, error) {
	_, server, err := i.server()
	if err != nil {
		return "", err
	}
	text := ""
	call := client.Call{Service: client.Compute, Doing: "reading the console of server " + i.machine.ServerName}
	err = i.do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		text, err = servers.ShowConsoleOutput(ctx, api, server.ID, servers.ShowConsoleOutputOpts{Length: bytes/lineLength + 1}).Extract()
		return err
	})
	return text[max(0, len(text)-bytes):], err
}
