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
	// SecurityGroups are the IDs of the security groups of the ports that are not open; nil when the spec disables port security.
	SecurityGroups []string
	// PoolID is the ID of the network for the floating IP; empty when the spec asks for no floating IP.
	PoolID string
	// ServerGroupID is empty when the spec asks for no server group.
	ServerGroupID string
}

// PlannedPort is a port of a server: its network and, when SubnetID is set, the subnet for its address.
type PlannedPort struct {
	NetworkID, SubnetID string
	// Open is true when port security is off in the network. Then Neutron refuses a port with security groups.
	Open bool
}

// step resolves one field of a spec.
type step struct {
	field string
	// due is true when the spec has the field, or needs something without it.
	due bool
	do  func(context.Context, *spec.Spec, *Plan) error
	// last is true for a step that is skipped when an earlier step has failed, because it needs the results of earlier steps or creates
	// something in the cloud.
	last bool
}

// Resolve returns the plan for a spec. It looks up what is not cached, and creates the default security group and the shared server
// group when the spec needs them and they are missing. An error names the field of the spec that cannot be resolved.
func (c *Catalog) Resolve(ctx context.Context, s *spec.Spec) (*Plan, error) {
	steps := []step{
		{"flavor", true, c.resolveFlavor, false},
		{"image", true, c.resolveImage, false},
		{"availabilityZone", s.AvailabilityZone != "", c.resolveZone, false},
		{"network", true, c.resolveNetworks, false},
		{"subnet", s.Subnet != "", c.resolveSubnet, true},
		{"securityGroups", !s.DisablePortSecurity, c.resolveGroups, len(s.SecurityGroups) == 0},
		{"floatingIpPool", s.FloatingIPPool != "", c.resolvePool, false},
		{s.ServerGroupField, s.ServerGroup != "", c.resolveServerGroup, s.ServerGroup == spec.SharedServerGroup},
		{"rootDiskSizeGB", true, c.resolveDisk, true},
		{"rootDiskVolumeType", s.RootDiskVolumeType != "", c.resolveVolumeType, false},
		{"keyName", s.KeyName != "", c.resolveKeyPair, false},
	}
	p := &Plan{}
	ctx = client.WithHiding(ctx, func(err error) error { return s.Conceal(err) })
	var errs []error
	for _, next := range steps {
		if !next.due || next.last && len(errs) > 0 {
			continue
		}
		err := next.do(ctx, s, p)
		if err == nil {
			continue
		}
		errs = append(errs, s.FieldError(next.field, err))
		if class := fault.Of(err).Class; class != fault.Invalid && class != fault.NotFound {
			break // the cloud does not answer: the other names cannot be looked up either
		}
	}
	if err := spec.Together(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Forget removes from the cache all resources of the kind that the cloud does not have, by the code of its refusal, so that the next
// Resolve looks them up again: another resource may have the name now.
func (c *Catalog) Forget(code fault.Code) { c.cache.drop(string(code) + " ") }

func (c *Catalog) resolveFlavor(ctx context.Context, s *spec.Spec, p *Plan) (err error) {
	p.Flavor, err = find[Flavor](ctx, c, flavorKind, s.Flavor, nil)
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

// resolveNetworks plans one port for each network. When the spec has the same network twice, by name and by ID, the network gets
// only one port.
func (c *Catalog) resolveNetworks(ctx context.Context, s *spec.Spec, p *Plan) error {
	if len(s.Networks) == 0 && s.Subnet == "" {
		n, err := c.onlyNetwork(ctx)
		p.Ports = []PlannedPort{n.port()}
		return err
	}
	for _, name := range s.Networks {
		n, err := c.network(ctx, name)
		if err != nil {
			return err
		}
		if next := n.port(); !slices.Contains(p.Ports, next) {
			p.Ports = append(p.Ports, next)
		}
	}
	return nil
}

// resolveSubnet resolves the field subnet. When the spec names a network, resolveSubnet only checks that the subnet belongs to one of the
// spec's networks, and Neutron chooses each port's address from any subnet of its network. machine-controller does the same, because its
// webhook writes a subnet into every object (F-135). When the spec names no network, resolveSubnet plans a port in the subnet's network,
// with an address from the subnet.
func (c *Catalog) resolveSubnet(ctx context.Context, s *spec.Spec, p *Plan) error {
	sub, err := c.subnet(ctx, s.Subnet)
	if err != nil {
		return err
	}
	switch inNetwork := func(p PlannedPort) bool { return p.NetworkID == sub.NetworkID }; {
	case slices.ContainsFunc(p.Ports, inNetwork):
		return nil
	case len(p.Ports) == 0:
		n, err := c.network(ctx, sub.NetworkID)
		port := n.port()
		port.SubnetID = sub.ID
		p.Ports = []PlannedPort{port}
		return err
	}
	return fault.New(fault.Invalid, fault.CodeSubnetNotFound, "subnet %s is in network %s, which is not in the spec; add that network", s.Shown("subnet", s.Subnet), sub.NetworkID)
}

func (c *Catalog) resolveGroups(ctx context.Context, s *spec.Spec, p *Plan) error {
	if len(s.SecurityGroups) == 0 {
		if !slices.ContainsFunc(p.Ports, func(port PlannedPort) bool { return !port.Open }) {
			return nil
		}
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
	n, err := c.pool(ctx, s.FloatingIPPool)
	p.PoolID = n.ID
	return err
}

func (c *Catalog) resolveServerGroup(ctx context.Context, s *spec.Spec, p *Plan) error {
	group := c.sharedServerGroup
	if s.ServerGroup != spec.SharedServerGroup {
		group = func(ctx context.Context) (resource, error) {
			return find[resource](ctx, c, serverGroupKind, s.ServerGroup, nil)
		}
	}
	g, err := group(ctx)
	p.ServerGroupID = g.ID
	return err
}

// resolveDisk refuses a boot volume for a flavor with a local disk: such a flavor costs more for its fast disk, which would be
// unused. It refuses a flavor without a disk when there is no boot volume, as Nova does.
func (c *Catalog) resolveDisk(_ context.Context, s *spec.Spec, p *Plan) error {
	if s.RootDiskSizeGB == 0 && p.Flavor.Disk == 0 {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "is missing, and flavor %s has no disk; set rootDiskSizeGB to boot from a volume, "+
			"or use another flavor", s.Shown("flavor", p.Flavor.Name))
	}
	if s.RootDiskSizeGB > 0 && p.Flavor.isLocal() {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec,
			"conflicts with flavor %s, whose disk of %d GiB is local; remove rootDiskSizeGB or use another flavor", s.Shown("flavor", p.Flavor.Name), p.Flavor.Disk)
	}
	return nil
}
