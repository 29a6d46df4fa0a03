package catalog

import (
	"context"
	"slices"
	"strconv"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// Plan is a spec with every name resolved to an ID.
type Plan struct {
	Flavor Flavor
	Image  Image
	// Ports has one port for each network of the spec, in the same order.
	Ports []PlannedPort
	// SecurityGroups are the IDs of the security groups of the ports; nil when port security is off.
	SecurityGroups []string
	// PoolID is the ID of the network for the floating IP; empty when the spec asks for no floating IP.
	PoolID string
	// ServerGroupID is empty when the spec asks for no server group.
	ServerGroupID string
}

// PlannedPort is a port of a server: its network and, when SubnetID is set, the subnet for its address.
type PlannedPort struct {
	NetworkID, SubnetID string
}

// step resolves one field of a spec.
type step struct {
	field string
	do    func(context.Context, *spec.Spec, *Plan) error
}

// Resolve returns the plan for a spec. It looks up what is not cached, and creates the default security group and the shared server
// group when the spec needs them and they are missing. An error names the field of the spec that cannot be resolved.
func (c *Catalog) Resolve(ctx context.Context, s *spec.Spec) (*Plan, error) {
	return c.run(ctx, s, []step{
		{"flavor", c.resolveFlavor}, {"image", c.resolveImage}, {"availabilityZone", c.resolveZone},
		{"network", c.resolveNetworks}, {"subnet", c.resolveSubnet}, {"securityGroups", c.resolveGroups}, {"floatingIpPool", c.resolvePool},
		{s.ServerGroupField, c.resolveServerGroup}, {"rootDiskSizeGB", c.resolveDisk}, {"rootDiskVolumeType", c.resolveVolumeType},
		{"keyName", c.resolveKeyPair},
	})
}

// ResolveShape returns a plan with only the flavor and the image, and checks the zone. An error names the field of the spec that
// cannot be resolved.
func (c *Catalog) ResolveShape(ctx context.Context, s *spec.Spec) (*Plan, error) {
	return c.run(ctx, s, []step{{"flavor", c.resolveFlavor}, {"image", c.resolveImage}, {"availabilityZone", c.resolveZone}})
}

// Forget removes the spec's flavor and image from the cache, so that the next Resolve looks both up again.
func (c *Catalog) Forget(s *spec.Spec) {
	c.cache.drop(allFlavors, flavorKind.key(s.Flavor), imageKind.key(s.Image))
}

// Sweep removes expired answers from the cache.
func (c *Catalog) Sweep() { c.cache.sweep() }

func (c *Catalog) run(ctx context.Context, s *spec.Spec, steps []step) (*Plan, error) {
	p := &Plan{}
	for _, next := range steps {
		if err := next.do(ctx, s, p); err != nil {
			return nil, s.FieldError(next.field, err)
		}
	}
	return p, nil
}

func (c *Catalog) resolveFlavor(ctx context.Context, s *spec.Spec, p *Plan) (err error) {
	p.Flavor, err = c.flavor(ctx, s.Flavor)
	return err
}

func (c *Catalog) resolveImage(ctx context.Context, s *spec.Spec, p *Plan) (err error) {
	p.Image, err = c.image(ctx, s.Image)
	if err == nil && s.RootDiskSizeGB > 0 && s.RootDiskSizeGB < p.Image.MinDisk {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s needs a disk of %d GiB, and rootDiskSizeGB is %s; raise rootDiskSizeGB",
			s.Shown("image", s.Image), p.Image.MinDisk, s.Shown("rootDiskSizeGB", strconv.Itoa(s.RootDiskSizeGB)))
	}
	return err
}

func (c *Catalog) resolveZone(ctx context.Context, s *spec.Spec, _ *Plan) error {
	if s.AvailabilityZone == "" {
		return nil
	}
	return c.zone(ctx, s.AvailabilityZone)
}

// resolveNetworks plans one port for each network. When the spec has the same network twice, by name and by ID, the network gets
// only one port.
func (c *Catalog) resolveNetworks(ctx context.Context, s *spec.Spec, p *Plan) error {
	if len(s.Networks) == 0 && s.Subnet == "" {
		n, err := c.onlyNetwork(ctx)
		p.Ports = []PlannedPort{{NetworkID: n.ID}}
		return err
	}
	for _, name := range s.Networks {
		n, err := c.network(ctx, name)
		if err != nil {
			return err
		}
		if next := (PlannedPort{NetworkID: n.ID}); !slices.Contains(p.Ports, next) {
			p.Ports = append(p.Ports, next)
		}
	}
	return nil
}

// resolveSubnet sets the subnet on the port of its network. When the spec names a subnet but no network, it plans a port in the
// network of the subnet.
func (c *Catalog) resolveSubnet(ctx context.Context, s *spec.Spec, p *Plan) error {
	if s.Subnet == "" {
		return nil
	}
	sub, err := c.subnet(ctx, s.Subnet)
	if err != nil {
		return err
	}
	if len(p.Ports) == 0 {
		p.Ports = []PlannedPort{{NetworkID: sub.NetworkID}}
	}
	for i := range p.Ports {
		if p.Ports[i].NetworkID == sub.NetworkID {
			p.Ports[i].SubnetID = sub.ID
			return nil
		}
	}
	return fault.New(fault.Invalid, fault.CodeSubnetNotFound, "subnet %s is in network %s, which is not in the spec; add that network", s.Shown("subnet", s.Subnet), sub.NetworkID)
}

func (c *Catalog) resolveGroups(ctx context.Context, s *spec.Spec, p *Plan) error {
	if s.DisablePortSecurity {
		return nil
	}
	if len(s.SecurityGroups) == 0 {
		g, err := c.defaultGroup(ctx)
		p.SecurityGroups = []string{g.ID}
		return err
	}
	for _, name := range s.SecurityGroups {
		g, err := c.securityGroup(ctx, name)
		if err != nil {
			return err
		}
		if !slices.Contains(p.SecurityGroups, g.ID) {
			p.SecurityGroups = append(p.SecurityGroups, g.ID)
		}
	}
	return nil
}

func (c *Catalog) resolvePool(ctx context.Context, s *spec.Spec, p *Plan) error {
	if s.FloatingIPPool == "" {
		return nil
	}
	n, err := c.pool(ctx, s.FloatingIPPool)
	p.PoolID = n.ID
	return err
}

func (c *Catalog) resolveServerGroup(ctx context.Context, s *spec.Spec, p *Plan) error {
	if s.ServerGroup == "" {
		return nil
	}
	find := func() (resource, error) { return c.serverGroup(ctx, s.ServerGroup) }
	if s.ServerGroup == spec.SharedServerGroup {
		find = func() (resource, error) { return c.sharedServerGroup(ctx) }
	}
	g, err := find()
	p.ServerGroupID = g.ID
	return err
}

// resolveDisk refuses a boot volume for a flavor with a local disk: such a flavor costs more for its fast disk, which would be
// unused.
func (c *Catalog) resolveDisk(_ context.Context, s *spec.Spec, p *Plan) error {
	if s.RootDiskSizeGB > 0 && p.Flavor.isLocal() {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec,
			"conflicts with flavor %s, whose disk of %d GiB is local; remove rootDiskSizeGB or use another flavor", s.Shown("flavor", p.Flavor.Name), p.Flavor.Disk)
	}
	return nil
}

// resolveVolumeType checks the volume type. It leaves the check to Nova in a cloud whose catalog has no volume service.
func (c *Catalog) resolveVolumeType(ctx context.Context, s *spec.Spec, _ *Plan) error {
	if id, _ := c.session.Known(); s.RootDiskVolumeType == "" || id == nil || id.Endpoint(client.Volume) == "" {
		return nil
	}
	return c.volumeType(ctx, s.RootDiskVolumeType)
}

func (c *Catalog) resolveKeyPair(ctx context.Context, s *spec.Spec, _ *Plan) error {
	if s.KeyName == "" {
		return nil
	}
	return c.keyPair(ctx, s.KeyName)
}
