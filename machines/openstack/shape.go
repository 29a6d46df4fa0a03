package openstack

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Shape resolves flavor, image and zone of a template. It works without Start; the first use of a name costs a call.
func (c *Cloud) Shape(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	s := c.sources(namespace, false)
	name := "template in " + namespace
	if err := s.read(ctx, name, &t.Spec, t.Metadata.Labels); err != nil {
		return cloud.Shape{}, err
	}
	ls := layers{list: s.layers, get: s.dereference, note: s.note}
	spec, err := readSpec(ctx, ls)
	if err != nil {
		return cloud.Shape{}, err
	}
	with, err := readCredentials(ctx, ls, c.credentialRules())
	if err != nil {
		return cloud.Shape{}, err
	}
	conn, err := c.connect(ctx, with, nil)
	if err != nil {
		return cloud.Shape{}, err
	}
	id, err := conn.session.Scope(ctx)
	if err != nil {
		return cloud.Shape{}, unauthorized(s.of(name, with.origin), err)
	}
	if err := with.wanted.check(id); err != nil {
		return cloud.Shape{}, err
	}
	p := &plan{}
	for _, step := range []struct {
		field string
		do    func(context.Context, *Spec, *plan) error
	}{{"flavor", conn.catalog.resolveFlavor}, {"image", conn.catalog.resolveImage}, {"availabilityZone", conn.catalog.resolveZone}} {
		if err := step.do(ctx, spec, p); err != nil {
			return cloud.Shape{}, unauthorized(s.of(name, with.origin), spec.wrong(step.field, err))
		}
	}
	return shapeOf(spec, p, id.Region), nil
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// shapeOf tells what a server of this flavor and image has. The boot volume takes the place of the flavor's disk.
func shapeOf(s *Spec, p *plan, region string) cloud.Shape {
	disk := p.flavor.Disk
	if s.RootDiskSizeGB > 0 {
		disk = s.RootDiskSizeGB
	}
	return cloud.Shape{
		Flavor:       p.flavor.Name,
		CPU:          *resource.NewQuantity(int64(p.flavor.VCPUs), resource.DecimalSI),
		Memory:       *resource.NewQuantity(int64(p.flavor.RAM)*mebi, resource.BinarySI),
		Disk:         *resource.NewQuantity(int64(disk)*gibi, resource.BinarySI),
		ExtraSpecs:   p.flavor.ExtraSpecs,
		Zone:         s.AvailabilityZone,
		Region:       region,
		Architecture: architecture(p.image.Architecture),
	}
}

// architectures turns what images say (Glance's property architecture) into what nodes say.
var architectures = map[string]string{"aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}

// architecture defaults to amd64: most images do not say.
func architecture(image string) string {
	if a, ok := architectures[image]; ok {
		return a
	}
	return "amd64"
}
