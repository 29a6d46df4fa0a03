package openstack

import (
	"strconv"
	"strings"
)

// gpusOf returns the number of GPUs in a flavor's extra specs: virtual and physical GPUs in Placement (resources:VGPU,
// resources:PGPU), and PCI passthrough devices (pci_passthrough:alias = name:count,…). An alias can stand for any device, such as a
// network card. It counts as a GPU when its name contains gpu or nvidia.
func gpusOf(specs map[string]string) int64 {
	var n int64
	for key, value := range specs {
		switch {
		case key == "pci_passthrough:alias":
			n += aliased(value)
		case strings.HasPrefix(key, "resources"):
			// The key is resources:VGPU or, in a numbered request group of Placement, resources1:VGPU.
			if _, class, _ := strings.Cut(key, ":"); class == "VGPU" || class == "PGPU" {
				n += countOf(value)
			}
		}
	}
	return n
}

func aliased(value string) (n int64) {
	for _, part := range strings.Split(value, ",") {
		name, times, ok := strings.Cut(strings.TrimSpace(part), ":")
		lower := strings.ToLower(name)
		if !strings.Contains(lower, "gpu") && !strings.Contains(lower, "nvidia") {
			continue
		}
		if !ok {
			times = "1"
		}
		n += countOf(times)
	}
	return n
}

// countOf parses a number of devices. It returns 0 for an invalid number, because the autoscaler would add nodes without end if a
// template promised GPUs that its nodes do not have.
func countOf(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 16)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
