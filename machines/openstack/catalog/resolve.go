package catalog

import (
	"context"
	"slices"
	"strconv"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// Plan is a spec with every name turned into an ID.
type Plan struct {
	Flavor Flavor
	Image  Image
	// Ports are in the order of the spec's networks.
	Ports []PlannedPort
	// SecurityGroups are IDs; nil when port security is off.
	SecurityGroups []string
	// PoolID is the ID of the network that the floating IP comes from; empty: none is wanted.
	PoolID string
	// ServerGroupID is empty when none is wanted.
	ServerGroupID string
}

// PlannedPort is a port that a server needs: in a network, and with an address of one of its subnets when SubnetID is not empty.
type PlannedPort struct {
	NetworkID, SubnetID string
}

// step resolves one field of a spec.
type step struct {
	field string
	do    func(context.Context, *spec.Spec, *Plan) error
}

// Resolve returns the plan for a spec. It looks up what is not cached, and makes the default security group and the shared server
// group when the spec needs them. The error names the field.
func (c *Catalog) Resolve(ctx context.Context, s *spec.Spec) (*Plan, error) {
	return c.run(ctx, s, []step{
		{"flavor", c.resolveFlavor}, {"image", c.resolveImage}, {"availabilityZone", c.resolveZone},
		{"network", c.resolveNetworks}, {"subnet", c.resolveSubnet}, {"securityGroups", c.resolveGroups}, {"floatingIpPool", c.resolvePool},
		{s.ServerGroupField, c.resolveServerGroup}, {"rootDiskSizeGB", c.resolveDisk}, {"rootDiskVolumeType", c.resolveVolumeType},
		{"keyName", c.resolveKeyPair},
	})
}

// ResolveShape returns a plan with flavor and image only, and checks the zone. The error names the field.
func (c *Catalog) ResolveShape(ctx context.Context, s *spec.Spec) (*Plan, error) {
	return c.run(ctx, s, []step{{"flavor", c.resolveFlavor}, {"image", c.resolveImage}, {"availabilityZone", c.resolveZone}})
}

// Forget drops what is cached of the flavor and image that a spec names, so that the next Resolve looks them up again.
func (c *Catalog) Forget(s *spec.Spec) {
	c.cache.drop(allFlavors, flavorKind.key(s.Flavor), imageKind.key(s.Image))
}

// Sweep drops what is cached and too old to be used.
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
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s needs a disk of %d GiB, rootDiskSizeGB is %s; raise it",
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

// resolveNetworks plans one port for each network, also for one that the spec names twice, by name and by ID.
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

// resolveSubnet puts the subnet on the port of its network. A subnet alone names its network too.
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
	return fault.New(fault.Invalid, fault.CodeSubnetNotFound, "subnet %s is in network %s, which the spec does not name; name that network too", s.Shown("subnet", s.Subnet), sub.NetworkID)
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
	find := func() (thing, error) { return c.serverGroup(ctx, s.ServerGroup) }
	if s.ServerGroup == spec.SharedServerGroup {
		find = func() (thing, error) { return c.sharedServerGroup(ctx) }
	}
	g, err := find()
	p.ServerGroupID = g.ID
	return err
}

// resolveDisk refuses a boot volume beside a disk that the host gives: such a flavor is paid for its fast local disk, which
// would lie idle.
func (c *Catalog) resolveDisk(_ context.Context, s *spec.Spec, p *Plan) error {
	if s.RootDiskSizeGB > 0 && p.Flavor.isLocal() {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec,
			"conflicts with flavor %s, whose disk of %d GiB is local; leave rootDiskSizeGB out or take another flavor", s.Shown("flavor", p.Flavor.Name), p.Flavor.Disk)
	}
	return nil
}

// resolveVolumeType leaves the name to Nova in a cloud whose catalog has no volume service that we may ask.
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
