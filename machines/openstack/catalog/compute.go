package catalog

import (
	"context"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

var (
	volumeTypeKind = kind{"volume type", fault.CodeVolumeTypeNotFound, client.Volume, "types", "volume_types"}
	keyPairKind    = kind{"key pair", fault.CodeKeyPairNotFound, client.Compute, "os-keypairs", "keypairs"}
)

type zone struct {
	Name string `json:"zoneName"`
}

// keyPair is a row of Nova's list of key pairs. A key pair has a name and no ID.
type keyPair struct {
	Pair resource `json:"keypair"`
}

func (k keyPair) named() resource { return k.Pair }

func (keyPair) rank(string) rank { return own }

// volumeType returns an error unless the volume type exists.
func (c *Catalog) volumeType(ctx context.Context, name string) error {
	_, err := find(ctx, c, volumeTypeKind, name, unfiltered[resource])
	return err
}

// keyPair returns an error unless the user has the key pair.
func (c *Catalog) keyPair(ctx context.Context, name string) error {
	_, err := find(ctx, c, keyPairKind, name, unfiltered[keyPair])
	return err
}

// zone returns an error unless the zone exists. A zone without a host that is up counts as existing, because the hosts may come back.
func (c *Catalog) zone(ctx context.Context, name string) error {
	_, err := lookup(c.cache, "zone "+name, func() (zone, error) {
		all, err := c.zones(ctx)
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
		return zone{}, fault.New(fault.Invalid, fault.CodeZoneNotFound, "availability zone %q is unknown; the cloud has: %s", name, strings.Join(names, ", "))
	})
	return err
}

// OnlyZone returns the name of the cloud's availability zone if the cloud has only one: a server whose spec names no zone is created there.
// It returns "" if the cloud has several.
func (c *Catalog) OnlyZone(ctx context.Context) (string, error) {
	return lookup(c.cache, "only zone", func() (string, error) {
		all, err := c.zones(ctx)
		if err != nil || len(all) != 1 {
			return "", err
		}
		return all[0].Name, nil
	})
}

func (c *Catalog) zones(ctx context.Context) ([]zone, error) {
	return client.List[zone](ctx, c.session, client.Listing{
		Call: client.Call{Service: client.Compute, Doing: "listing availability zones"}, Path: "os-availability-zone", Field: "availabilityZoneInfo",
	})
}
