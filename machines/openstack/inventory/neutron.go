package inventory

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// portsAtOnce is the maximum number of ports in one list request. The request has their IDs in its URL, whose length is limited.
const portsAtOnce = 100

// portFields are the fields of a port that drover requests from Neutron: those of state.PortRow.
var portFields = []string{"id", "description", "network_id", "fixed_ips", "device_id", "port_security_enabled", "trunk_details"}

// PortListing returns the listing of the ports that match a query.
func PortListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing ports"}, Path: "ports", Field: "ports", Query: query,
	}
}

// FloatingIPListing returns the listing of the floating IPs that match a query.
func FloatingIPListing(query url.Values) client.Listing {
	return client.Listing{
		Call: client.Call{Service: client.Network, Doing: "listing floating IPs"}, Path: "floatingips", Field: "floatingips", Query: query,
	}
}

// listAddresses lists all ports and floating IPs of the project.
func listAddresses(ctx context.Context, s *client.Session) (l state.AddressLists, err error) {
	id, err := s.Scope(ctx)
	if err != nil {
		return l, err
	}
	l.Ports, err = client.List[state.PortRow](ctx, s, PortListing(url.Values{
		"project_id": {id.ProjectID}, "fields": portFields,
	}))
	if err != nil {
		return l, err
	}
	l.FloatingIPs, err = client.List[state.FloatingIPRow](ctx, s, FloatingIPListing(url.Values{
		"project_id": {id.ProjectID}, "fields": {"id", "description", "floating_ip_address", "port_id"},
	}))
	return l, err
}

// listPorts lists the ports with these IDs, up to 100 with each request.
func listPorts(ctx context.Context, s *client.Session, ids []string) (rows []state.PortRow, err error) {
	for some := range slices.Chunk(ids, portsAtOnce) {
		more, err := client.List[state.PortRow](ctx, s, PortListing(url.Values{"id": some, "fields": portFields}))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// tagPort writes an owner tag onto a port.
func tagPort(ctx context.Context, s *client.Session, id string, tag state.Tag) error {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("tagging port %s with Machine %s", id, tag.Machine)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return ports.Update(ctx, api, id, ports.UpdateOpts{Description: new(tag.String())}).Err
	})
}

// tagFloatingIP writes an owner tag onto a floating IP. It also sends the current port_id, because Neutron disassociates a
// floating IP from its port in an update without port_id.
func tagFloatingIP(ctx context.Context, s *client.Session, ip state.FloatingIP, tag state.Tag) error {
	call := client.Call{Service: client.Network, Doing: fmt.Sprintf("tagging floating IP %s with Machine %s", ip.Address, tag.Machine)}
	return s.Do(ctx, call, func(ctx context.Context, api *gophercloud.ServiceClient) error {
		return floatingips.Update(ctx, api, ip.ID, floatingips.UpdateOpts{Description: new(tag.String()), PortID: &ip.PortID}).Err
	})
}
