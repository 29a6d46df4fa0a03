package capacity

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// classTemplate returns what the template's MachineClass sets for its nodes; nil when there is no class, or when the class sets
// nothing.
func (r *Reconciler) classTemplate(ctx context.Context, s *subject) (*v1alpha1.ClassNodeTemplate, error) {
	source, err := s.template.Spec.Provider()
	if err != nil || source.ValueFrom == nil || source.ValueFrom.MachineClass == nil {
		// An invalid spec is not an error here, because the cloud provider reports it.
		return nil, nil
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: source.ValueFrom.MachineClass.Name}
	class := &v1alpha1.MachineClass{}
	if err := r.client.Get(ctx, key, class); err != nil {
		return nil, fmt.Errorf("reading MachineClass %s: %w", key, err)
	}
	return class.NodeTemplate, nil
}

// overCapacity replaces the resources of the flavor, and the number of pods of the kubelet's settings, by those in the list.
func overCapacity(list corev1.ResourceList, shape *cloud.Shape, settings *bootstrap.KubeletSettings) {
	for name, into := range map[corev1.ResourceName]*resource.Quantity{
		corev1.ResourceCPU: &shape.CPU, corev1.ResourceMemory: &shape.Memory, corev1.ResourceEphemeralStorage: &shape.Disk,
	} {
		if q, ok := list[name]; ok && q.Sign() > 0 {
			*into = q.DeepCopy()
		}
	}
	if pods, ok := list[corev1.ResourcePods]; ok && pods.Sign() > 0 {
		settings.MaxPods = int32(pods.Value())
	}
}

// overShape replaces values of the flavor by those that a class sets.
func overShape(c *v1alpha1.ClassNodeTemplate, shape *cloud.Shape) {
	shape.Flavor, shape.Region, shape.Zone = cmp.Or(c.InstanceType, shape.Flavor), cmp.Or(c.Region, shape.Region), cmp.Or(c.Zone, shape.Zone)
	if c.Architecture != nil {
		shape.Architecture = *c.Architecture
	}
}

// beyond adds the resources that a class sets and that the flavor's capacity lacks.
func beyond(c *v1alpha1.ClassNodeTemplate, t *v1alpha1.NodeTemplate) {
	for _, list := range []corev1.ResourceList{c.Capacity, c.VirtualCapacity} {
		for name, q := range list {
			if _, known := t.Capacity[name]; known {
				continue
			}
			t.Capacity[name], t.Allocatable[name] = q.DeepCopy(), q.DeepCopy()
		}
	}
}
