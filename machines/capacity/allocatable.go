package capacity

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// kernelMemory is the share of a server's memory, in percent, that firmware and kernel use. A kubelet reports less
// memory than the flavor has. If a template had too much memory, the autoscaler would request nodes on which the pending pod does
// not fit (CA-C99).
const kernelMemory = 3.0

// capacity returns the resources of the flavor.
func capacity(shape cloud.Shape, maxPods int32) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    shape.CPU.DeepCopy(),
		corev1.ResourceMemory: shape.Memory.DeepCopy(),
		corev1.ResourcePods:   *resource.NewQuantity(int64(maxPods), resource.DecimalSI),
	}
	if !shape.Disk.IsZero() {
		list[corev1.ResourceEphemeralStorage] = shape.Disk.DeepCopy()
	}
	return list
}

// arriving returns the capacity that a node reports: the flavor's memory less the percentage that firmware and kernel use. When this memory
// is wrong by more than 1.5 %, the autoscaler does not treat a group without nodes as similar to a group with nodes (CA-C99). arriving does
// not change memory that annotations or a class set.
func arriving(list corev1.ResourceList, given []corev1.ResourceName) corev1.ResourceList {
	if memory, ok := list[corev1.ResourceMemory]; ok && !slices.Contains(given, corev1.ResourceMemory) {
		memory.Sub(*resource.NewQuantity(share(memory.Value(), kernelMemory), resource.BinarySI))
		list[corev1.ResourceMemory] = memory
	}
	return list
}

// allocatable returns what pods can use: the capacity less the reservations for kubelet and system, less the eviction thresholds, and less
// the percentage of memory for firmware and kernel. No value is below zero.
func allocatable(shape cloud.Shape, s bootstrap.KubeletSettings, kernel float64) (corev1.ResourceList, error) {
	list := capacity(shape, s.MaxPods)
	memory := list[corev1.ResourceMemory]
	memory.Sub(*resource.NewQuantity(share(memory.Value(), kernel), resource.BinarySI))
	list[corev1.ResourceMemory] = memory
	for _, reserved := range []map[string]string{s.KubeReserved, s.SystemReserved} {
		for name, value := range reserved {
			if err := subtract(list, corev1.ResourceName(name), value, 0); err != nil {
				return nil, fmt.Errorf("reserved %s: %w", name, err)
			}
		}
	}
	for signal, name := range map[string]corev1.ResourceName{
		"memory.available": corev1.ResourceMemory,
		"nodefs.available": corev1.ResourceEphemeralStorage,
	} {
		total := capacity(shape, s.MaxPods)[name]
		if err := subtract(list, name, s.EvictionHard[signal], total.Value()); err != nil {
			return nil, fmt.Errorf("eviction threshold %s: %w", signal, err)
		}
	}
	return list, nil
}

// subtract subtracts a quantity, or a percentage of total, from a resource of the list.
func subtract(list corev1.ResourceList, name corev1.ResourceName, value string, total int64) error {
	left, ok := list[name]
	if !ok || value == "" {
		return nil
	}
	amount, err := amountOf(value, total)
	if err != nil {
		return err
	}
	left.Sub(amount)
	if left.Sign() < 0 {
		left = *resource.NewQuantity(0, left.Format)
	}
	list[name] = left
	return nil
}

func amountOf(value string, total int64) (resource.Quantity, error) {
	percent, ok := strings.CutSuffix(value, "%")
	if !ok {
		return resource.ParseQuantity(value)
	}
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil || p < 0 || p > 100 {
		return resource.Quantity{}, fmt.Errorf("%q is not a percentage", value)
	}
	return *resource.NewQuantity(int64(float64(total)*p/100), resource.BinarySI), nil
}

// share returns the given percentage of n, rounded up.
func share(n int64, percent float64) int64 { return int64(math.Ceil(float64(n) * percent / 100)) }
