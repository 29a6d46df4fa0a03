package autoscaler

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/proto"
)

// priced is the length of the period for which a price is requested.
const priced = time.Hour

// nodePrice requests the price of a new node of a group for the period that begins at now. n is the group's template.
func (p *provider) nodePrice(ctx context.Context, n *corev1.Node, now time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.PricingNodePrice(ctx, &proto.PricingNodePriceRequest{
		Node: wireNode(n), StartTimestamp: timestamppb.New(now), EndTimestamp: timestamppb.New(now.Add(priced)),
	})
	return answer.GetPrice(), named("PricingNodePrice "+n.Name, err)
}

// podPrice requests the price of a pod for the period that begins at now.
func (p *provider) podPrice(ctx context.Context, pod *corev1.Pod, now time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	raw, err := pod.Marshal()
	if err != nil {
		return 0, named("PricingPodPrice "+pod.Name, err)
	}
	answer, err := p.rpc.PricingPodPrice(ctx, &proto.PricingPodPriceRequest{
		PodBytes: raw, StartTimestamp: timestamppb.New(now), EndTimestamp: timestamppb.New(now.Add(priced)),
	})
	return answer.GetPrice(), named("PricingPodPrice "+pod.Name, err)
}

// smallPod returns a small pod. Its price is added to both prices of a ratio, so that small amounts do not distort the ratio.
func smallPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("500Mi"),
	}}}}}}
}

// prices requests the costs of possible scale-ups from the provider.
type prices struct {
	provider *provider
	log      logr.Logger
}

// of returns the cost of each possible scale-up, by group, and the price of a small pod. It leaves out a scale-up for which a
// request fails.
func (p prices) of(ctx context.Context, now time.Time, ways []way) (map[string]cost, float64) {
	small, err := p.provider.podPrice(ctx, smallPod(), now)
	if err != nil {
		p.log.Error(err, "Failed to read the price of a small pod")
	}
	out := map[string]cost{}
	for _, w := range ways {
		c, err := p.costOf(ctx, now, w)
		if err != nil {
			p.log.Error(err, "Failed to read the price of a group: it is left out", "group", w.group.ID)
			continue
		}
		out[w.group.ID] = c
	}
	return out, small
}

func (p prices) costOf(ctx context.Context, now time.Time, w way) (c cost, err error) {
	if c.node, err = p.provider.nodePrice(ctx, w.group.Template, now); err != nil {
		return c, err
	}
	for _, pod := range w.pods {
		price, err := p.provider.podPrice(ctx, pod, now)
		if err != nil {
			return c, err
		}
		c.pods += price
	}
	return c, nil
}
