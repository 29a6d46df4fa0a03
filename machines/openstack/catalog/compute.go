package catalog

import (
	"context"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

type zone struct {
	Name string `json:"zoneName"`
}

// volumeType checks that a volume type exists.
func (c *Catalog) volumeType(ctx context.Context, name string) (thing, error) {
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
func (c *Catalog) keyPair(ctx context.Context, name string) error {
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
func (c *Catalog) zone(ctx context.Context, name string) error {
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
