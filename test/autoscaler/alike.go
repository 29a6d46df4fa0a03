package autoscaler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The largest relative differences between the nodes of similar groups: in memory capacity, and in each allocatable
// resource.
const (
	memoryTolerance      = 0.015
	allocatableTolerance = 0.05
)

// placeLabels are the labels in which the nodes of similar groups may differ.
var placeLabels = []string{
	corev1.LabelHostname, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	"beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup",
}

// alike reports whether two templates are similar: they have nearly the same resources, and the same labels except for
// placeLabels and the ignored ones.
func alike(a, b *corev1.Node, ignored []string) bool {
	return sameAmounts(a.Status.Capacity, b.Status.Capacity, func(name corev1.ResourceName) float64 {
		if name == corev1.ResourceMemory {
			return memoryTolerance
		}
		return 0
	}) && sameAmounts(a.Status.Allocatable, b.Status.Allocatable, func(corev1.ResourceName) float64 { return allocatableTolerance }) &&
		sameLabels(a.Labels, b.Labels, append(slices.Clone(placeLabels), ignored...))
}

func sameAmounts(a, b corev1.ResourceList, tolerance func(corev1.ResourceName) float64) bool {
	for name, one := range a {
		other, there := b[name]
		x, y := one.AsApproximateFloat64(), other.AsApproximateFloat64()
		if !there || max(x, y)-min(x, y) > max(x, y)*tolerance(name) {
			return false
		}
	}
	return len(a) == len(b)
}

func sameLabels(a, b map[string]string, ignored []string) bool {
	counted := 0
	for key, value := range a {
		if slices.Contains(ignored, key) {
			continue
		}
		if other, there := b[key]; !there || other != value {
			return false
		}
		counted++
	}
	for key := range b {
		if !slices.Contains(ignored, key) {
			counted--
		}
	}
	return counted == 0
}
