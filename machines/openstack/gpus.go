package openstack

import (
	"slices"
	"strconv"
	"strings"
)

// gpusOf returns the number of GPUs that a flavor's extra specs promise: virtual and physical ones that placement knows
// (resources:VGPU, resources:PGPU), and devices passed through under a PCI alias (pci_passthrough:alias = name:count,…).
// An alias may be anything, a network card too: it counts as a GPU when it is one of the named types, or says so itself.
func gpusOf(specs map[string]string, types []string) int64 {
	var n int64
	for key, value := range specs {
		switch {
		case key == "pci_passthrough:alias":
			n += aliased(value, types)
		case strings.HasPrefix(key, "resources"):
			// resources:VGPU, and resources1:VGPU for a numbered group.
			if _, class, _ := strings.Cut(key, ":"); class == "VGPU" || class == "PGPU" {
				n += countOf(value)
			}
		}
	}
	return n
}

func aliased(value string, types []string) (n int64) {
	for _, part := range strings.Split(value, ",") {
		name, times, ok := strings.Cut(strings.TrimSpace(part), ":")
		lower := strings.ToLower(name)
		if !slices.Contains(types, name) && !strings.Contains(lower, "gpu") && !strings.Contains(lower, "nvidia") {
			continue
		}
		if !ok {
			times = "1"
		}
		n += countOf(times)
	}
	return n
}

// countOf reads a number of devices; what is none counts for nothing, because too much makes the autoscaler order for ever.
func countOf(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 16)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
