package model

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Prices are the prices of servers per hour, in any currency: by flavor name, or by resources for servers of other flavors.
type Prices struct {
	// Flavors are the prices by name of the flavor.
	Flavors map[string]float64 `json:"flavors"`
	// CPU is the price of one virtual CPU, MemoryGiB the price of one GiB of memory, and GPU the price of one GPU.
	CPU       float64 `json:"cpu"`
	MemoryGiB float64 `json:"memoryGiB"`
	GPU       float64 `json:"gpu"`
}

// leastPrice is the lowest price per hour that is returned: prices of 0 could not be compared (CA-C107).
const leastPrice = 1e-6

// ReadPrices parses prices from YAML. Its errors name the field.
func ReadPrices(text string) (*Prices, error) {
	p := &Prices{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		return nil, err
	}
	for name, value := range map[string]float64{"cpu": p.CPU, "memoryGiB": p.MemoryGiB, "gpu": p.GPU} {
		if !(value >= 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("%s is %v: it must be 0 or a number above 0", name, value)
		}
	}
	for name, value := range p.Flavors {
		if !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("the flavor %s costs %v: it must be a number above 0", name, value)
		}
	}
	if len(p.Flavors) == 0 && p.CPU == 0 && p.MemoryGiB == 0 {
		return nil, errors.New("there is no price: set flavors, cpu or memoryGiB")
	}
	return p, nil
}

// Node returns the price of running a Node from start to end. When neither the flavor nor the resources of a Node are known, it
// costs as much as the most expensive known Node, so that the autoscaler does not prefer it.
func (p *Prices) Node(flavor string, resources corev1.ResourceList, start, end time.Time) float64 {
	return over(p.hourly(flavor, resources), start, end)
}

// Pod returns the price of the resources that a pod requests, from start to end. templates are the template nodes of the
// groups.
func (p *Prices) Pod(pod *corev1.Pod, templates []*v1alpha1.NodeTemplate, start, end time.Time) float64 {
	total := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		for name, q := range pod.Spec.Containers[i].Resources.Requests {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	cpu, memory := p.rates(templates)
	return over(cpu*cores(total)+memory*gibibytes(total)+p.GPU*gpus(total), start, end)
}

// hourly returns the price of a node per hour.
func (p *Prices) hourly(flavor string, has corev1.ResourceList) float64 {
	if price, ok := p.Flavors[flavor]; ok {
		return price
	}
	if has != nil && p.CPU+p.MemoryGiB > 0 {
		return max(leastPrice, p.CPU*cores(has)+p.MemoryGiB*gibibytes(has)+p.GPU*gpus(has))
	}
	dearest := max(leastPrice, p.CPU+p.MemoryGiB)
	for _, price := range p.Flavors {
		dearest = max(dearest, price)
	}
	return dearest
}

// rates returns the prices of one CPU and of one GiB of memory. When only flavors have prices, it divides the price of the
// groups' nodes equally between their CPUs and their memory.
func (p *Prices) rates(templates []*v1alpha1.NodeTemplate) (cpu, memory float64) {
	if p.CPU+p.MemoryGiB > 0 {
		return p.CPU, p.MemoryGiB
	}
	var cost, allCores, allMemory float64
	for _, t := range templates {
		if cores(t.Capacity) <= 0 || gibibytes(t.Capacity) <= 0 {
			continue
		}
		cost += p.hourly(t.Labels[corev1.LabelInstanceTypeStable], t.Capacity)
		allCores += cores(t.Capacity)
		allMemory += gibibytes(t.Capacity)
	}
	if allCores == 0 {
		return leastPrice, leastPrice
	}
	return cost / 2 / allCores, cost / 2 / allMemory
}

// over returns the price of the time from start to end at an hourly price. The result is always above 0. If start and end are not
// set, it is the price of one hour.
func over(hourly float64, start, end time.Time) float64 {
	hours := end.Sub(start).Hours()
	if start.IsZero() || end.IsZero() || hours <= 0 {
		hours = 1
	}
	return max(hourly, leastPrice) * hours
}

func cores(list corev1.ResourceList) float64 { return list.Cpu().AsApproximateFloat64() }

func gibibytes(list corev1.ResourceList) float64 {
	return list.Memory().AsApproximateFloat64() / (1 << 30)
}

// gpus returns the number of GPUs of all vendors.
func gpus(list corev1.ResourceList) float64 {
	var sum resource.Quantity
	for name, q := range list {
		if v1alpha1.IsGPU(name) {
			sum.Add(q)
		}
	}
	return sum.AsApproximateFloat64()
}
