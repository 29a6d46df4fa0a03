package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/fault"
)

// onlyNetwork returns the network of specs that name neither network nor subnet: the only one that the project sees, else
// the only one that is not external and has a subnet that the project sees. This is machine-controller's rule, which in
// addition counts external networks whose subnets are visible. With none or several candidates it is Invalid.
func (c *catalog) onlyNetwork(ctx context.Context) (network, error) {
	return lookup(c.cache, c.key("network", ""), func() (network, error) {
		all, err := client.List[network](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Network, Doing: "listing networks"}, Path: "networks", Field: "networks",
		})
		if err != nil {
			return network{}, err
		}
		if len(all) == 1 {
			return all[0], nil
		}
		subnets, err := client.List[subnet](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Network, Doing: "listing subnets"}, Path: "subnets", Field: "subnets",
		})
		if err != nil {
			return network{}, err
		}
		return pickOnly(all, subnets)
	})
}

// pickOnly returns the only network that servers can be in.
func pickOnly(all []network, subnets []subnet) (network, error) {
	var candidates []network
	var names []string
	for _, n := range all {
		usable := slices.ContainsFunc(subnets, func(s subnet) bool { return s.NetworkID == n.ID })
		if usable && !n.External {
			candidates, names = append(candidates, n), append(names, fmt.Sprintf("%s (%s)", n.Name, n.ID))
		}
	}
	switch len(candidates) {
	case 0:
		return network{}, fault.New(fault.Invalid, fault.CodeNetworkNotFound,
			"is empty, and the project sees no network with a subnet; name a network or a subnet")
	case 1:
		return candidates[0], nil
	}
	return network{}, fault.New(fault.Invalid, fault.CodeAmbiguousName,
		"is empty, and the project sees %d networks; name one of: %s", len(candidates), strings.Join(names, ", "))
}
