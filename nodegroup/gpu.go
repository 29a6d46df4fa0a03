package nodegroup

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// isGPU tells whether a resource is a kind of GPU, by the names that device plugins give.
func isGPU(name corev1.ResourceName) bool {
	_, device, ok := strings.Cut(string(name), "/")
	return ok && (device == "gpu" || device == "vgpu" || strings.HasPrefix(device, "mig-") || strings.HasPrefix(device, "gpu."))
}

// GPUTypes are the values that the GPU label has in the groups' templates, sorted. It never fails (CA-C105).
func (g *Groups) GPUTypes() []string {
	if g.options.GPULabel == "" {
		return nil
	}
	found := map[string]bool{}
	for _, e := range g.current().entries {
		if t := e.owner.template; t != nil && t.Labels[g.options.GPULabel] != "" {
			found[t.Labels[g.options.GPULabel]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
