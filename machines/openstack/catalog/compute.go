package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
)

var (
	volumeTypeKind = kind{name: "volume type", notFound: fault.CodeVolumeTypeNotFound, service: client.Volume, path: "types", field: "volume_types", unfiltered: true}
	keyPairKind    = kind{name: "key pair", notFound: fault.CodeKeyPairNotFound, service: client.Compute, path: "os-keypairs", field: "keypairs", unfiltered: true}
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

// resolveVolumeType checks the volume type. It leaves the check to Nova in a cloud whose catalog has no volume service.
func (c *Catalog) resolveVolumeType(ctx context.Context, s *spec.Spec, _ *Plan) error {
	if id, _ := c.session.Known(); id == nil || id.Endpoint(client.Volume) == "" {
		return nil
	}
	_, err := find[resource](ctx, c, volumeTypeKind, s.RootDiskVolumeType, nil)
	return err
}

// resolveKeyPair returns an error unless the user has the key pair.
func (c *Catalog) resolveKeyPair(ctx context.Context, s *spec.Spec, _ *Plan) error {
	_, err := find[keyPair](ctx, c, keyPairKind, s.KeyName, nil)
	return err
}

// resolveZone returns an error unless the zone exists. A zone without a host that is up counts as existing, because the hosts may come
// back.
func (c *Catalog) resolveZone(ctx context.Context, s *spec.Spec, _ *Plan) error {
	name := s.AvailabilityZone
	_, err := lookup(c.cache, "zone "+name, func() (found bool, err error) {
		all, err := c.zones(ctx)
		if err != nil {
			return false, err
		}
		var names []string
		for _, z := range all {
			names = append(names, z.Name)
		}
		if slices.Contains(names, name) {
			return true, nil
		}
		return false, fault.New(fault.Invalid, fault.CodeZoneNotFound, "availability zone %q is unknown; the cloud has: %s", name, strings.Join(names, ", "))
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
