package openstack

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// Shape resolves a template, and looks up every name in its provider spec as the creation of a server does: a group whose next Machine
// would get no server must not be shown as one that can grow. Outside of observe mode it creates the security group and the server
// group that the creation would create. It works before Start is called; the first use of a name costs a call.
func (c *Cloud) Shape(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	s, err := c.specs.Read(ctx, templateIn(namespace, t))
	if err != nil {
		return cloud.Shape{}, err
	}
	wanted, err := s.Spec()
	if err != nil {
		return cloud.Shape{}, err
	}
	with, err := s.Access()
	if err != nil {
		return cloud.Shape{}, err
	}
	conn, err := c.connect(ctx, with, nil)
	if err != nil {
		return cloud.Shape{}, err
	}
	scope, err := conn.session.Scope(ctx)
	if err != nil {
		return cloud.Shape{}, with.WithOrigin(err)
	}
	if err := with.Wanted.Check(scope); err != nil {
		return cloud.Shape{}, err
	}
	plan, err := conn.catalog.Resolve(ctx, wanted)
	if err != nil {
		return cloud.Shape{}, with.WithOrigin(err)
	}
	shape := shapeOf(wanted, plan, scope.Region)
	if shape.Zone == "" {
		shape.Zone, err = conn.catalog.OnlyZone(ctx)
	}
	if e := fault.Of(err); e != nil && (e.Class == fault.Transient || e.Class == fault.RateLimited) {
		return cloud.Shape{}, with.WithOrigin(err)
	}
	// A cloud that refuses to list its zones creates servers nevertheless. The template only lacks the zone then.
	return shape, nil
}

// Check returns the error with which [Cloud.Shape] fails.
func (c *Cloud) Check(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) error {
	_, err := c.Shape(ctx, namespace, t)
	return err
}

// templateIn returns a template in the form that the reader of provider specs accepts.
func templateIn(namespace string, t *v1alpha1.MachineTemplateSpec) spec.Object {
	return spec.Object{Name: "template in " + namespace, Namespace: namespace, Spec: &t.Spec, Labels: t.Metadata.Labels}
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// zoneLabels are the labels that Cinder's CSI driver sets on a node, so that volumes are created in its zone.
var zoneLabels = []string{"topology.cinder.csi.openstack.org/zone"}

// shapeOf returns the capacity and topology of a server with this flavor and image. A boot volume replaces the flavor's disk.
func shapeOf(s *spec.Spec, p *catalog.Plan, region string) cloud.Shape {
	disk := p.Flavor.Disk
	if s.RootDiskSizeGB > 0 {
		disk = s.RootDiskSizeGB
	}
	return cloud.Shape{
		Flavor:       p.Flavor.Name,
		CPU:          *resource.NewQuantity(int64(p.Flavor.VCPUs), resource.DecimalSI),
		Memory:       *resource.NewQuantity(int64(p.Flavor.RAM)*mebi, resource.BinarySI),
		Disk:         *resource.NewQuantity(int64(disk)*gibi, resource.BinarySI),
		GPUs:         gpusOf(p.Flavor.ExtraSpecs),
		Zone:         s.AvailabilityZone,
		ZoneLabels:   zoneLabels,
		Region:       region,
		Architecture: architecture(p.Image.Architecture),
	}
}

// architectures maps Glance's property architecture to the architecture of Nodes.
var architectures = map[string]string{"aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}

// architecture returns the architecture of Nodes that start from an image, from the image's property architecture; amd64 for an
// image without that property, as most images are.
func architecture(image string) string {
	if a, ok := architectures[image]; ok {
		return a
	}
	return "amd64"
}

// PlaceRecord returns the status.providerStatus of a new Machine, with the project and region in which its resources will be
// created. It makes no call to the cloud. It returns nil when the template's credentials cannot be read or have not signed in yet.
func (c *Cloud) PlaceRecord(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
	s, err := c.specs.Read(ctx, templateIn(namespace, t))
	if err != nil {
		return nil
	}
	with, err := s.Access()
	if err != nil {
		return nil
	}
	conn, err := c.connect(ctx, with, nil)
	if err != nil {
		return nil
	}
	scope, refused := conn.session.Known()
	if scope == nil || refused != nil || with.Wanted.Check(scope) != nil {
		return nil
	}
	return (&provider.Record{ProjectID: scope.ProjectID, Region: scope.Region}).MergeInto(nil)
}
