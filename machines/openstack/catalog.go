package openstack

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// catalog looks up what provider specs name, in one project and region. Everything is found by name or ID; a name that
// several things have is an error that lists their IDs; what is not there is Invalid with a code of its own.
type catalog struct {
	session   *client.Session
	cache     *cache
	clusterID string
}

// thing is what the APIs tell of everything that has a name.
type thing struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type flavor struct {
	thing
	VCPUs      int               `json:"vcpus"`
	RAM        int               `json:"ram"`
	Disk       int               `json:"disk"`
	ExtraSpecs map[string]string `json:"extra_specs"`
}

type image struct {
	thing
	Status       string `json:"status"`
	MinDisk      int    `json:"min_disk"`
	Architecture string `json:"architecture"`
}

type network struct {
	thing
	External bool `json:"router:external"`
}

type subnet struct {
	thing
	NetworkID string `json:"network_id"`
}

type securityGroup struct {
	thing
	Created     string      `json:"created_at"`
	Description string      `json:"description"`
	Rules       []groupRule `json:"security_group_rules"`
}

// groupRule is what a security group lets through.
type groupRule struct {
	Direction string `json:"direction"`
	Family    string `json:"ethertype"`
	From      string `json:"remote_group_id"`
}

type zone struct {
	Name string `json:"zoneName"`
}

func (t thing) named() thing { return t }

// named is anything with a name and an ID.
type named interface{ named() thing }

// wanted says what is looked for, for the error.
type wanted struct {
	kind, name string
	code       fault.Code
	region     string
}

// mostAlike is how many names an error proposes.
const mostAlike = 3

// missing returns the error for a name that nothing has. It proposes those of the given names that look like it.
func (w wanted) missing(there []string) *fault.Error {
	where := ""
	if w.region != "" {
		where = " in region " + w.region
	}
	hint := ""
	if alike := v1alpha1.Nearest(w.name, there, mostAlike); len(alike) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(alike, " or "))
	}
	return fault.New(fault.Invalid, w.code, "%s %q is neither the name nor the ID of one that this project can see%s%s", w.kind, w.name, where, hint)
}

// pick finds the one with that ID, else the one with that name.
func pick[T named](w wanted, all []T) (T, error) {
	var hits []T
	var ids []string
	for _, t := range all {
		if t.named().ID == w.name {
			return t, nil
		}
		if t.named().Name == w.name {
			hits, ids = append(hits, t), append(ids, t.named().ID)
		}
	}
	var none T
	switch len(hits) {
	case 0:
		return none, w.missing(namesOf(all))
	case 1:
		return hits[0], nil
	}
	return none, fault.New(fault.Invalid, fault.CodeAmbiguousName, "%s %q is the name of %d of them; give one of the IDs: %s",
		w.kind, w.name, len(hits), strings.Join(ids, ", "))
}

// namesOf returns the names of things, which need not be unique.
func namesOf[T named](all []T) []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.named().Name
	}
	return names
}

func (c *catalog) key(kind, name string) string { return kind + " " + name }

func (c *catalog) wanted(ctx context.Context, kind, name string, code fault.Code) wanted {
	w := wanted{kind: kind, name: name, code: code}
	if id, err := c.session.Scope(ctx); err == nil {
		w.region = id.Region
	}
	return w
}

func (c *catalog) network(ctx context.Context, name string) (network, error) {
	return lookup(c.cache, c.key("network", name), func() (network, error) {
		all, err := byNameOrID[network](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Network, Doing: "looking up network " + name}, Path: "networks", Field: "networks",
		}, name)
		if err != nil {
			return network{}, err
		}
		return pick(c.wanted(ctx, "network", name, fault.CodeNetworkNotFound), all)
	})
}

// pool is an external network that floating IPs come from.
func (c *catalog) pool(ctx context.Context, name string) (network, error) {
	n, err := c.network(ctx, name)
	if e := fault.Of(err); e != nil && e.Code == fault.CodeNetworkNotFound {
		return n, c.wanted(ctx, "floating IP pool", name, fault.CodeIPPoolNotFound).missing(nil)
	}
	if err == nil && !n.External {
		return n, fault.New(fault.Invalid, fault.CodeIPPoolNotFound, "floating IP pool %q is a network that is not external; name an external one", name)
	}
	return n, err
}

func (c *catalog) subnet(ctx context.Context, name string) (subnet, error) {
	return lookup(c.cache, c.key("subnet", name), func() (subnet, error) {
		all, err := byNameOrID[subnet](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Network, Doing: "looking up subnet " + name}, Path: "subnets", Field: "subnets",
		}, name)
		if err != nil {
			return subnet{}, err
		}
		return pick(c.wanted(ctx, "subnet", name, fault.CodeSubnetNotFound), all)
	})
}

func (c *catalog) securityGroups(ctx context.Context, name string) ([]securityGroup, error) {
	return byNameOrID[securityGroup](ctx, c.session, client.Listing{
		Call: client.Call{Service: client.Network, Doing: "looking up security group " + name}, Path: "security-groups", Field: "security_groups",
	}, name)
}

func (c *catalog) securityGroup(ctx context.Context, name string) (securityGroup, error) {
	return lookup(c.cache, c.key("security group", name), func() (securityGroup, error) {
		all, err := c.securityGroups(ctx, name)
		if err != nil {
			return securityGroup{}, err
		}
		return pick(c.wanted(ctx, "security group", name, fault.CodeSecurityGroupNotFound), all)
	})
}

func (c *catalog) serverGroup(ctx context.Context, name string) (thing, error) {
	return lookup(c.cache, c.key("server group", name), func() (thing, error) {
		all, err := c.serverGroups(ctx, name)
		if err != nil {
			return thing{}, err
		}
		return pick(c.wanted(ctx, "server group", name, fault.CodeServerGroupNotFound), all)
	})
}

func (c *catalog) serverGroups(ctx context.Context, name string) ([]thing, error) {
	return client.List[thing](ctx, c.session, client.Listing{
		Call: client.Call{Service: client.Compute, Doing: "looking up server group " + name}, Path: "os-server-groups", Field: "server_groups",
	})
}

// volumeType checks that a volume type exists.
func (c *catalog) volumeType(ctx context.Context, name string) (thing, error) {
	return lookup(c.cache, c.key("volume type", name), func() (thing, error) {
		all, err := client.List[thing](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Volume, Doing: "looking up volume type " + name}, Path: "types", Field: "volume_types",
		})
		if err != nil {
			return thing{}, err
		}
		return pick(c.wanted(ctx, "volume type", name, fault.CodeVolumeTypeNotFound), all)
	})
}

// keyPair checks that the user has a key pair.
func (c *catalog) keyPair(ctx context.Context, name string) error {
	_, err := lookup(c.cache, c.key("key pair", name), func() (thing, error) {
		type pair struct {
			Pair thing `json:"keypair"`
		}
		all, err := client.List[pair](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Compute, Doing: "looking up key pair " + name}, Path: "os-keypairs", Field: "keypairs",
		})
		if err != nil {
			return thing{}, err
		}
		things := make([]thing, 0, len(all))
		for _, p := range all {
			things = append(things, p.Pair)
		}
		return pick(c.wanted(ctx, "key pair", name, fault.CodeKeyPairNotFound), things)
	})
	return err
}

// zone checks that a zone exists. One that exists and has no host that is up may come back: that is NoCapacity.
func (c *catalog) zone(ctx context.Context, name string) error {
	_, err := lookup(c.cache, c.key("zone", name), func() (zone, error) {
		all, err := client.List[zone](ctx, c.session, client.Listing{
			Call: client.Call{Service: client.Compute, Doing: "listing availability zones"}, Path: "os-availability-zone", Field: "availabilityZoneInfo",
		})
		if err != nil {
			return zone{}, err
		}
		var names []string
		for _, z := range all {
			if z.Name == name {
				return z, nil
			}
			names = append(names, z.Name)
		}
		return zone{}, fault.New(fault.Invalid, fault.CodeZoneNotFound, "availability zone %q is unknown; there are: %s", name, strings.Join(names, ", "))
	})
	return err
}

// byNameOrID asks by the name, which in most specs is one, and by the ID when it may be one. The answer may hold more
// than was asked for; pick decides.
func byNameOrID[T named](ctx context.Context, s *client.Session, l client.Listing, name string) ([]T, error) {
	fields := []string{"name"}
	if client.LooksLikeID(name) {
		fields = []string{"id", "name"}
	}
	for _, field := range fields {
		l.Query = url.Values{field: {name}}
		all, err := client.List[T](ctx, s, l)
		if err != nil || len(all) > 0 {
			return all, err
		}
	}
	return nil, nil
}
