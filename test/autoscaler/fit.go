package autoscaler

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// onePod is the amount of the resource "pods" that each pod takes.
var onePod = resource.MustParse("1")

// bin is the free capacity of a node that exists or would be created.
type bin struct {
	node *corev1.Node
	free corev1.ResourceList
}

// newBin returns the free capacity of a node on which these pods run.
func newBin(n *corev1.Node, pods []*corev1.Pod) *bin {
	b := &bin{node: n, free: n.Status.Allocatable.DeepCopy()}
	for _, p := range pods {
		b.place(p)
	}
	return b
}

// requests returns the resources that a pod requests, including one of the resource "pods".
func requests(p *corev1.Pod) corev1.ResourceList {
	return podresource.PodRequests(p, podresource.PodResourcesOptions{})
}

func (b *bin) place(p *corev1.Pod) {
	for name, q := range requests(p) {
		left := b.free[name]
		left.Sub(q)
		b.free[name] = left
	}
	left := b.free[corev1.ResourcePods]
	left.Sub(onePod)
	b.free[corev1.ResourcePods] = left
}

// takes reports whether a pod could run on the node, by resources, node selector, affinity and taints.
func (b *bin) takes(p *corev1.Pod) bool {
	for name, q := range requests(p) {
		left := b.free[name]
		if q.Sign() > 0 && left.Cmp(q) < 0 {
			return false
		}
	}
	if left := b.free[corev1.ResourcePods]; left.Cmp(onePod) < 0 {
		return false
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(b.node)
	if err != nil || !match || b.node.Spec.Unschedulable {
		return false
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), b.node.Spec.Taints, p.Spec.Tolerations, repels, true)
	return !untolerated
}

func repels(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// firstFit puts each pod into the first bin that takes it, and returns the pods that no bin took.
func firstFit(pods []*corev1.Pod, bins []*bin) (left []*corev1.Pod) {
	for _, p := range pods {
		i := slices.IndexFunc(bins, func(b *bin) bool { return b.takes(p) })
		if i < 0 {
			left = append(left, p)
			continue
		}
		bins[i].place(p)
	}
	return left
}

// pack puts pods onto as few new nodes of a template as first-fit needs, at most limit.
func pack(pods []*corev1.Pod, template *corev1.Node, limit int) (nodes int, placed []*corev1.Pod) {
	var bins []*bin
	for _, p := range pods {
		if len(firstFit([]*corev1.Pod{p}, bins)) == 0 {
			placed = append(placed, p)
			continue
		}
		fresh := newBin(template, nil)
		if len(bins) >= limit || !fresh.takes(p) {
			continue
		}
		fresh.place(p)
		bins = append(bins, fresh)
		placed = append(placed, p)
	}
	return len(bins), placed
}
