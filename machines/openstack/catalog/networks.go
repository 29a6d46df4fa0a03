package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var (
	networkKind = kind{"network", fault.CodeNetworkNotFound, client.Network, "networks", "networks"}
	poolKind    = kind{name: "floating IP pool", notFound: fault.CodeIPPoolNotFound}
	subnetKind  = kind{"subnet", fault.CodeSubnetNotFound, client.Network, "subnets", "subnets"}
)

type network struct {
	resource
	External bool `json:"router:external"`
}

type subnet struct {
	resource
	NetworkID string `json:"network_id"`
}

func (c *Catalog) network(ctx context.Context, name string) (network, error) {
	return find(ctx, c, networkKind, name, byNameOrID[network])
}

func (c *Catalog) subnet(ctx context.Context, name string) (subnet, error) {
	return find(ctx, c, subnetKind, name, byNameOrID[subnet])
}

// pool returns the external network of a floating IP pool.
func (c *Catalog) pool(ctx context.Context, name string) (network, error) {
	n, err := c.network(ctx, name)
	if e := fault.Of(err); e != nil && e.Code == fault.CodeNetworkNotFound {
		return n, c.wanted(ctx, poolKind, name).missing(nil)
	}
	if err == nil && !n.External {
		return n, fault.New(fault.Invalid, fault.CodeIPPoolNotFound, "floating IP pool %q is not an external network; use an external one", name)
	}
	return n, err
}

// onlyNetwork returns the network for specs with neither a network nor a subnet. If the project sees only one network, it is that
// network; otherwise it is the only one that is not external and has a visible subnet. With no or several candidates, onlyNetwork
// returns an Invalid error. machine-controller has the same rule, but also counts external networks with visible subnets.
func (c *Catalog) onlyNetwork(ctx context.Context) (network, error) {
	return lookup(c.cache, networkKind.key(""), func() (network, error) {
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

// pickOnly returns the only network that is not external and has a visible subnet. Otherwise it returns an error.
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
			"is empty, and the project sees no network with a subnet; set a network or a subnet")
	case 1:
		return candidates[0], nil
	}
	return network{}, fault.New(fault.Invalid, fault.CodeAmbiguousName,
		"is empty, and the project sees %d networks; set one of: %s", len(candidates), strings.Join(names, ", "))
}
