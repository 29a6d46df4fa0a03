package autoscaler

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// cluster reads nodes and pods from informer caches.
type cluster struct {
	nodes corelisters.NodeLister
	pods  corelisters.PodLister
	// unschedulable receives a value when the scheduler marks a pod as unschedulable.
	unschedulable chan struct{}
}

func newCluster(ctx context.Context, client kubernetes.Interface) (*cluster, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &cluster{
		nodes:         factory.Core().V1().Nodes().Lister(),
		pods:          factory.Core().V1().Pods().Lister(),
		unschedulable: make(chan struct{}, 1),
	}
	wake := func(obj any) {
		if p, ok := obj.(*corev1.Pod); ok && isUnschedulable(p) {
			select {
			case c.unschedulable <- struct{}{}:
			default:
			}
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(before, now any) {
			if p, ok := before.(*corev1.Pod); ok && !isUnschedulable(p) {
				wake(now)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, errors.New("reading nodes and pods: the informer caches did not sync")
		}
	}
	return c, nil
}

// isUnschedulable reports whether the scheduler found no node for the pod.
func isUnschedulable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// read returns the nodes by name, the pods on each node, and the unschedulable pods, oldest first.
func (c *cluster) read() ([]*corev1.Node, map[string][]*corev1.Pod, []*corev1.Pod, error) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil, nil, nil, err
	}
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return nil, nil, nil, err
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	on, pending := map[string][]*corev1.Pod{}, []*corev1.Pod(nil)
	for _, p := range pods {
		switch {
		case p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		case isUnschedulable(p):
			pending = append(pending, p)
		}
	}
	return nodes, on, pending, nil
}
