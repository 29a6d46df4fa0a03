package inventory

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	compute "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// lookUpPort gets one port by its ID.
func lookUpPort(ctx context.Context, s *client.Session, id string) (*state.PortRow, error) {
	var body struct {
		Port state.PortRow `json:"port"`
	}
	err := lookUp(ctx, s, "ports", id, "port", &body)
	return &body.Port, err
}

// lookUpFloatingIP gets one floating IP by its ID.
func lookUpFloatingIP(ctx context.Context, s *client.Session, id string) (*state.FloatingIPRow, error) {
	var body struct {
		FloatingIP state.FloatingIPRow `json:"floatingip"`
	}
	err := lookUp(ctx, s, "floatingips", id, "floating IP", &body)
	return &body.FloatingIP, err
}

func lookUp(ctx context.Context, s *client.Session, path, id, what string, into any) error {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("looking up %s %s", what, id)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		_, err := api.Get(ctx, api.ServiceURL(path, id), into, nil)
		return err
	})
}

// deleteResource deletes a server, port or floating IP. Messages contain the reason why.
func deleteResource(ctx context.Context, s *client.Session, kind state.Kind, id, why string) error {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("deleting %s %s, %s", kind, id, why)}
	if kind == state.ServerKind {
		call.Service = client.Compute
	}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		switch kind {
		case state.ServerKind:
			return compute.Delete(ctx, api, id).ExtractErr()
		case state.FloatingIPKind:
			return floatingips.Delete(ctx, api, id).ExtractErr()
		}
		return ports.Delete(ctx, api, id).ExtractErr()
	})
}
