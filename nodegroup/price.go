package nodegroup

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"
)

// Prices are what servers cost in an hour, in any currency: a flavor by its name, everything else by what it has. They come
// from the key prices.yaml of a ConfigMap.
type Prices struct {
	// Flavors are by name of the flavor.
	Flavors map[string]float64 `json:"flavors"`
	// CPU is the price of one virtual CPU, MemoryGiB of one GiB of memory, GPU of one GPU.
	CPU       float64 `json:"cpu"`
	MemoryGiB float64 `json:"memoryGiB"`
	GPU       float64 `json:"gpu"`
}

// pricesKey is the key of the ConfigMap.
const pricesKey = "prices.yaml"

// least is the least price of anything in an hour: what costs nothing cannot be compared (CA-C107).
const least = 1e-6

// ReadPrices reads prices. Its error says what is wrong where.
func ReadPrices(text string) (*Prices, error) {
	p := &Prices{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		return nil, fmt.Errorf("%s: %w", pricesKey, err)
	}
	for name, value := range map[string]float64{"cpu": p.CPU, "memoryGiB": p.MemoryGiB, "gpu": p.GPU} {
		if !(value >= 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("%s: %s is %v: it must be a number from 0 on", pricesKey, name, value)
		}
	}
	for name, value := range p.Flavors {
		if !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("%s: the flavor %s costs %v: it must be a number above 0", pricesKey, name, value)
		}
	}
	if len(p.Flavors) == 0 && p.CPU == 0 && p.MemoryGiB == 0 {
		return nil, fmt.Errorf("%s: it has neither flavors nor cpu and memoryGiB", pricesKey)
	}
	return p, nil
}

// readPrices reads the ConfigMap anew. While it cannot be read, the last prices hold.
func (g *Groups) readPrices(ctx context.Context) {
	if g.options.Prices.Name == "" {
		return
	}
	config := &corev1.ConfigMap{}
	if err := g.live.Get(ctx, g.options.Prices, config); err != nil {
		g.priceTrouble(ctx, fmt.Errorf("reading the ConfigMap %s: %w", g.options.Prices, err))
		return
	}
	prices, err := ReadPrices(config.Data[pricesKey])
	if err != nil {
		g.priceTrouble(ctx, fmt.Errorf("ConfigMap %s: %w", g.options.Prices, err))
		return
	}
	g.prices.Store(prices)
	g.priceTrouble(ctx, nil)
}

// priceTrouble logs what is wrong with the prices when it changes.
func (g *Groups) priceTrouble(ctx context.Context, err error) {
	var text string
	if err != nil {
		text = err.Error()
	}
	if old := g.priceError.Swap(&text); (old == nil || *old != text) && err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "no new prices")
	}
}

// NodePrice is what a node costs from start to end. The node may be one of ours, a template, or one that nobody knows: then
// it costs as much as the dearest thing that is known, so that it is not preferred.
//
// Errors: Unimplemented without prices (CA-C106).
func (g *Groups) NodePrice(n Node, start, end time.Time) (float64, error) {
	p := g.prices.Load()
	if p == nil {
		return 0, noPrices()
	}
	s := g.current().snapshot
	return over(p.hourly(n.Labels[corev1.LabelInstanceTypeStable], s.resourcesOf(n)), start, end), nil
}

// PodPrice is what the resources that a pod requests cost from start to end.
//
// Errors: Unimplemented without prices (CA-C106).
func (g *Groups) PodPrice(pod *corev1.Pod, start, end time.Time) (float64, error) {
	p := g.prices.Load()
	if p == nil {
		return 0, noPrices()
	}
	total := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		for name, q := range pod.Spec.Containers[i].Resources.Requests {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	cpu, memory := p.rates(g.current().snapshot)
	return over(cpu*cores(total)+memory*gibibytes(total)+p.GPU*gpus(total), start, end), nil
}

func noPrices() error {
	return refuse(Unimplemented, "there are no prices (--prices-configmap): the autoscaler must not be run with --expander=price")
}

// resourcesOf is what a node has, by the template of its group; nil when nobody knows.
func (s *Snapshot) resourcesOf(n Node) corev1.ResourceList {
	var g *group
	if p, ok := n.placeholder(); ok {
		g = s.groups[p.group]
	} else if m := s.index.find(n); m != nil {
		g = s.groups[s.index.groupOf(m)]
	}
	if g == nil || g.owner.template == nil {
		return nil
	}
	return g.owner.template.Capacity
}

// hourly is the price of a node for an hour.
func (p *Prices) hourly(flavor string, has corev1.ResourceList) float64 {
	if price, ok := p.Flavors[flavor]; ok {
		return price
	}
	if has != nil && p.CPU+p.MemoryGiB > 0 {
		return max(least, p.CPU*cores(has)+p.MemoryGiB*gibibytes(has)+p.GPU*gpus(has))
	}
	dearest := max(least, p.CPU+p.MemoryGiB)
	for _, price := range p.Flavors {
		dearest = max(dearest, price)
	}
	return dearest
}

// rates are the prices of one CPU and of one GiB. Where only flavors have prices, half of what the groups' nodes cost is for
// their CPUs and half for their memory.
func (p *Prices) rates(s *Snapshot) (cpu, memory float64) {
	if p.CPU+p.MemoryGiB > 0 {
		return p.CPU, p.MemoryGiB
	}
	var cost, allCores, allMemory float64
	for _, g := range s.groups {
		t := g.owner.template
		if t == nil || cores(t.Capacity) <= 0 || gibibytes(t.Capacity) <= 0 {
			continue
		}
		cost += p.hourly(t.Labels[corev1.LabelInstanceTypeStable], t.Capacity)
		allCores += cores(t.Capacity)
		allMemory += gibibytes(t.Capacity)
	}
	if allCores == 0 {
		return least, least
	}
	return cost / 2 / allCores, cost / 2 / allMemory
}

// over is an hourly price from start to end; always above 0. A client that says no times asks for an hour.
func over(hourly float64, start, end time.Time) float64 {
	hours := end.Sub(start).Hours()
	if start.IsZero() || end.IsZero() || hours <= 0 {
		hours = 1
	}
	return max(hourly, least) * hours
}

func cores(list corev1.ResourceList) float64 { return list.Cpu().AsApproximateFloat64() }

func gibibytes(list corev1.ResourceList) float64 {
	return list.Memory().AsApproximateFloat64() / (1 << 30)
}

// gpus counts the devices of all vendors.
func gpus(list corev1.ResourceList) float64 {
	var sum resource.Quantity
	for name, q := range list {
		if isGPU(name) {
			sum.Add(q)
		}
	}
	return sum.AsApproximateFloat64()
}
