package catalog

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var (
	networkKind = kind{name: "network", notFound: fault.CodeNetworkNotFound, service: client.Network, path: "networks", field: "networks"}
	poolKind    = kind{name: "floating IP pool", notFound: fault.CodeIPPoolNotFound, service: client.Network, path: "networks", field: "networks"}
	subnetKind  = kind{name: "subnet", notFound: fault.CodeSubnetNotFound, service: client.Network, path: "subnets", field: "subnets"}
)

type network struct {
	resource
	External bool `json:"router:external"`
	// PortSecurity is nil in a cloud without Neutron's extension port-security.
	PortSecurity *bool `json:"port_security_enabled"`
}

// port returns a port in the network.
func (n network) port() PlannedPort {
	return PlannedPort{NetworkID: n.ID, Open: n.PortSecurity != nil && !*n.PortSecurity}
}

func (n network) rank(project string) rank {
	if r := n.resource.rank(project); r != foreign || !n.External {
		return r
	}
	return shared
}

type subnet struct {
	resource
	NetworkID string `json:"network_id"`
}

func (c *Catalog) network(ctx context.Context, name string) (network, error) {
	return find[network](ctx, c, networkKind, name, nil)
}

func (c *Catalog) subnet(ctx context.Context, name string) (subnet, error) {
	return find(ctx, c, subnetKind, name, func(w wanted, all []subnet) ([]subnet, error) { return all, c.markShared(ctx, w, all) })
}

// networksAtOnce is the maximum number of networks in one list request. The request has their IDs in its URL, whose length is limited.
const networksAtOnce = 100

// markShared sets the field Shared of subnets that belong to other projects. A subnet is shared when its network is; Neutron shows that
// for networks only. markShared looks nothing up when the project has a subnet of the wanted name, because that one is used then.
func (c *Catalog) markShared(ctx context.Context, w wanted, all []subnet) error {
	var ids []string
	for _, s := range all {
		if s.Name == w.name && s.Project != w.ProjectID {
			ids = append(ids, s.NetworkID)
		}
	}
	if slices.ContainsFunc(all, func(s subnet) bool { return s.Name == w.name && s.Project == w.ProjectID }) {
		return nil
	}
	usable := map[string]bool{}
	for some := range slices.Chunk(ids, networksAtOnce) {
		l := networkKind.listing("of subnet " + w.name)
		l.Query = url.Values{"id": some}
		networks, err := client.List[network](ctx, c.session, l)
		if err != nil {
			return err
		}
		for _, n := range networks {
			usable[n.ID] = n.rank(w.ProjectID) != foreign
		}
	}
	for i := range all {
		all[i].Shared = new(usable[all[i].NetworkID])
	}
	return nil
}

// pool returns the external network of a floating IP pool. Other networks do not count, because another project may share one of the
// same name.
func (c *Catalog) pool(ctx context.Context, name string) (network, error) {
	return find(ctx, c, poolKind, name, func(_ wanted, all []network) ([]network, error) {
		found := len(all)
		all = slices.DeleteFunc(all, func(n network) bool { return !n.External })
		if len(all) == 0 && found > 0 {
			return nil, fault.New(fault.Invalid, fault.CodeIPPoolNotFound, "floating IP pool %q is not an external network; use an external one", name)
		}
		return all, nil
	})
}

// onlyNetwork returns the network for specs with neither a network nor a subnet. If the project sees only one network, and it is its
// own, it is that network; otherwise it is the only one of its own that is not external and has a visible subnet. With no or several
// candidates, onlyNetwork returns an Invalid error. machine-controller also counts external networks, and networks of other projects:
// then another project could share a network, and get the next servers into it.
func (c *Catalog) onlyNetwork(ctx context.Context) (network, error) {
	return lookup(c.cache, networkKind.key(""), func() (network, error) {
		all, err := client.List[network](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Network, Doing: "listing networks"}, Path: "networks", Field: "networks",
		})
		if err != nil {
			return network{}, err
		}
		scope, err := c.session.Scope(ctx)
		if err != nil {
			return network{}, err
		}
		several := len(all) > 1
		all = slices.DeleteFunc(all, func(n network) bool { return n.rank(scope.ProjectID) != own })
		if len(all) == 1 && !several {
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
	all = slices.DeleteFunc(all, func(n network) bool {
		return n.External || !slices.ContainsFunc(subnets, func(s subnet) bool { return s.NetworkID == n.ID })
	})
	switch len(all) {
	case 0:
		return network{}, fault.New(fault.Invalid, fault.CodeNetworkNotFound,
			"is empty, and the project has no network of its own with a subnet; set a network or a subnet")
	case 1:
		return all[0], nil
	}
	names := texts(all, func(r resource) string { return fmt.Sprintf("%s (%s)", r.Name, r.ID) })
	return network{}, fault.New(fault.Invalid, fault.CodeAmbiguousName,
		"is empty, and the project has %d networks; set one of: %s", len(all), strings.Join(names, ", "))
}
