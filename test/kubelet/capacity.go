package kubelet

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// The kubelet's own defaults for values that its configuration omits.
const defaultMaxPods = 110

var defaultEviction = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}

// evictionResources maps the signal of an eviction threshold to the resource from which the threshold reserves a part.
var evictionResources = map[string]corev1.ResourceName{
	"memory.available": corev1.ResourceMemory,
	"nodefs.available": corev1.ResourceEphemeralStorage,
}

// hugePages are the resources for huge pages that a kubelet on amd64 reports. Their amount is 0 as a rule.
var hugePages = []corev1.ResourceName{"hugepages-1Gi", "hugepages-2Mi"}

// capacity adds the resources that the kubelet itself defines to the resources of the machine.
func capacity(machine corev1.ResourceList, config *kubeletconfig.KubeletConfiguration) corev1.ResourceList {
	pods := config.MaxPods
	if pods == 0 {
		pods = defaultMaxPods
	}
	out := machine.DeepCopy()
	for _, name := range hugePages {
		if _, there := out[name]; !there {
			out[name] = resource.MustParse("0")
		}
	}
	out[corev1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
	return out
}

// allocatable returns the capacity minus the reservations and the hard eviction thresholds, as a kubelet computes it.
func allocatable(capacity corev1.ResourceList, config *kubeletconfig.KubeletConfiguration) (corev1.ResourceList, error) {
	out := capacity.DeepCopy()
	for _, reserved := range []map[string]string{config.KubeReserved, config.SystemReserved} {
		for name, amount := range reserved {
			if err := take(out, corev1.ResourceName(name), amount, capacity); err != nil {
				return nil, err
			}
		}
	}
	eviction := config.EvictionHard
	if eviction == nil {
		eviction = defaultEviction
	}
	for signal, threshold := range eviction {
		if name, ok := evictionResources[signal]; ok {
			if err := take(out, name, threshold, capacity); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// take subtracts an amount, which may be a percentage of the capacity, from a resource. The result is never below zero.
func take(from corev1.ResourceList, name corev1.ResourceName, amount string, capacity corev1.ResourceList) error {
	have, ok := from[name]
	if !ok {
		return nil
	}
	var less resource.Quantity
	if percent, isPercent := strings.CutSuffix(amount, "%"); isPercent {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			return fmt.Errorf("reserving %s: %q is not a percentage", name, amount)
		}
		total := capacity[name]
		less = *resource.NewQuantity(int64(share/100*float64(total.Value())), total.Format)
	} else {
		var err error
		if less, err = resource.ParseQuantity(amount); err != nil {
			return fmt.Errorf("reserving %s: %q is not a quantity", name, amount)
		}
	}
	have.Sub(less)
	if have.Sign() < 0 {
		have = resource.Quantity{Format: have.Format}
	}
	from[name] = have
	return nil
}
