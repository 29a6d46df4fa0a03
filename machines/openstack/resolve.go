package openstack

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/machines/openstack/client"

	"github.com/drover-project/drover/machines/fault"
)

// resolve turns the names of a spec into IDs. The error names the field.
func (c *catalog) resolve(ctx context.Context, s *Spec) (*plan, error) {
	p := &plan{}
	for _, step := range []struct {
		field string
		do    func(context.Context, *Spec, *plan) error
	}{
		{"flavor", c.resolveFlavor}, {"image", c.resolveImage}, {"availabilityZone", c.resolveZone},
		{"network", c.resolveNetworks}, {"subnet", c.resolveSubnet}, {"securityGroups", c.resolveGroups}, {"floatingIpPool", c.resolvePool},
		{s.serverGroupField, c.resolveServerGroup}, {"rootDiskSizeGB", c.resolveDisk}, {"rootDiskVolumeType", c.resolveVolumeType},
		{"keyName", c.resolveKeyPair},
	} {
		if err := step.do(ctx, s, p); err != nil {
			return nil, s.wrong(step.field, err)
		}
	}
	return p, nil
}

// wrong names the field that an error is about; a refused sign-in is about none of them.
func (s *Spec) wrong(field string, err error) error {
	if fault.Of(err).Code == fault.CodeUnauthorized {
		return err
	}
	fields := []string{field}
	if field == "network" {
		fields = append(fields, "networks")
	}
	if s.origin != nil {
		err = s.origin.conceal(err, fields...)
	}
	return layer{source: s.source}.wrong(field, err)
}

func (c *catalog) resolveFlavor(ctx context.Context, s *Spec, p *plan) (err error) {
	p.flavor, err = c.flavor(ctx, s.Flavor)
	return err
}

func (c *catalog) resolveImage(ctx context.Context, s *Spec, p *plan) (err error) {
	p.image, err = c.image(ctx, s.Image)
	if err == nil && s.RootDiskSizeGB > 0 && s.RootDiskSizeGB < p.image.MinDisk {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s needs a disk of %d GiB, rootDiskSizeGB is %s; raise it",
			s.shown("image", s.Image), p.image.MinDisk, s.shown("rootDiskSizeGB", strconv.Itoa(s.RootDiskSizeGB)))
	}
	return err
}

func (c *catalog) resolveZone(ctx context.Context, s *Spec, _ *plan) error {
	if s.AvailabilityZone == "" {
		return nil
	}
	return c.zone(ctx, s.AvailabilityZone)
}

// resolveNetworks plans one port for each network, also for one that the spec names twice, by name and by ID.
func (c *catalog) resolveNetworks(ctx context.Context, s *Spec, p *plan) error {
	if len(s.Networks) == 0 && s.Subnet == "" {
		n, err := c.onlyNetwork(ctx)
		p.networks = []plannedNetwork{{network: n.ID}}
		return err
	}
	for _, name := range s.Networks {
		n, err := c.network(ctx, name)
		if err != nil {
			return err
		}
		if next := (plannedNetwork{network: n.ID}); !slices.Contains(p.networks, next) {
			p.networks = append(p.networks, next)
		}
	}
	return nil
}

// resolveSubnet puts the subnet on the port of its network. A subnet alone names its network too.
func (c *catalog) resolveSubnet(ctx context.Context, s *Spec, p *plan) error {
	if s.Subnet == "" {
		return nil
	}
	sub, err := c.subnet(ctx, s.Subnet)
	if err != nil {
		return err
	}
	if len(p.networks) == 0 {
		p.networks = []plannedNetwork{{network: sub.NetworkID}}
	}
	for i := range p.networks {
		if p.networks[i].network == sub.NetworkID {
			p.networks[i].subnet = sub.ID
			return nil
		}
	}
	return fault.New(fault.Invalid, fault.CodeSubnetNotFound, "subnet %s is in network %s, which the spec does not name; name that network too", s.shown("subnet", s.Subnet), sub.NetworkID)
}

func (c *catalog) resolveGroups(ctx context.Context, s *Spec, p *plan) error {
	if s.DisablePortSecurity {
		return nil
	}
	if len(s.SecurityGroups) == 0 {
		g, err := c.defaultGroup(ctx)
		p.groups = []string{g.ID}
		return err
	}
	for _, name := range s.SecurityGroups {
		g, err := c.securityGroup(ctx, name)
		if err != nil {
			return err
		}
		p.groups = append(p.groups, g.ID)
	}
	p.groups = unique(p.groups)
	return nil
}

func (c *catalog) resolvePool(ctx context.Context, s *Spec, p *plan) error {
	if s.FloatingIPPool == "" {
		return nil
	}
	n, err := c.pool(ctx, s.FloatingIPPool)
	p.pool = n.ID
	return err
}

func (c *catalog) resolveServerGroup(ctx context.Context, s *Spec, p *plan) error {
	if s.ServerGroup == "" {
		return nil
	}
	find := func() (thing, error) { return c.serverGroup(ctx, s.ServerGroup) }
	if s.ServerGroup == sharedGroup {
		find = func() (thing, error) { return c.sharedServerGroup(ctx) }
	}
	g, err := find()
	p.group = g.ID
	return err
}

// resolveDisk refuses a boot volume beside a disk that the host gives: such a flavor is paid for its fast local disk, which
// would lie idle.
func (c *catalog) resolveDisk(_ context.Context, s *Spec, p *plan) error {
	if s.RootDiskSizeGB > 0 && p.flavor.local() {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec,
			"conflicts with flavor %s, whose disk of %d GiB is local; leave rootDiskSizeGB out or take another flavor", s.shown("flavor", p.flavor.Name), p.flavor.Disk)
	}
	return nil
}

// localName is how clouds call flavors with a local disk where no extra spec says so.
var localName = regexp.MustCompile(`^l\d+\.`)

// local tells whether the flavor's disk is one of the host's: an extra spec ends in storage and says local, or its name
// begins like l1.
func (f *flavor) local() bool {
	if f.Disk == 0 {
		return false
	}
	for key, text := range f.ExtraSpecs {
		if strings.HasSuffix(strings.ToLower(key), "storage") {
			return strings.EqualFold(text, "local")
		}
	}
	return localName.MatchString(f.Name)
}

// resolveVolumeType leaves the name to Nova in a cloud whose catalog has no volume service that we may ask.
func (c *catalog) resolveVolumeType(ctx context.Context, s *Spec, _ *plan) error {
	if id, _ := c.session.Known(); s.RootDiskVolumeType == "" || id == nil || id.Endpoint(client.Volume) == "" {
		return nil
	}
	_, err := c.volumeType(ctx, s.RootDiskVolumeType)
	return err
}

func (c *catalog) resolveKeyPair(ctx context.Context, s *Spec, _ *plan) error {
	if s.KeyName == "" {
		return nil
	}
	return c.keyPair(ctx, s.KeyName)
}
