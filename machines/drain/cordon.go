package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Cordon keeps new pods and new connections off a node. In one patch it makes the node unschedulable, taints it, excludes it from
// external load balancers and removes [v1alpha1.LabelGPU], because the node may lose its GPUs when their pods are evicted. Every few minutes it records in the taint how long the drain has lasted (see [Lasted]). It writes only what is
// missing. It returns the node as stored, and a Conflict when another client has changed the node since it was read.
func Cordon(ctx context.Context, c client.Client, node *corev1.Node, now time.Time) (*corev1.Node, error) {
	taint := record(node, now)
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	_, gpus := node.Labels[v1alpha1.LabelGPU]
	if node.Spec.Unschedulable && excluded && taint == nil && !gpus {
		return node, nil
	}
	base := node.DeepCopy()
	node = node.DeepCopy()
	node.Spec.Unschedulable = true
	switch stored := taintOf(node, &deleting); {
	case taint == nil:
	case stored == nil:
		node.Spec.Taints = append(node.Spec.Taints, *taint)
	default:
		*stored = *taint
	}
	delete(node.Labels, v1alpha1.LabelGPU)
	if !excluded {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[corev1.LabelNodeExcludeBalancers] = ""
	}
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, node, patch, fieldOwner); err != nil {
		return nil, fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	return node, nil
}

// fieldOwner is the field manager of the Machine controller, which drains nodes.
const fieldOwner = client.FieldOwner("drover-machine")

// The taints of a Node whose Machine is being deleted, and of a Node whose server is gone or shut down permanently.
var (
	deleting     = corev1.Taint{Key: v1alpha1.TaintDeleting, Effect: corev1.TaintEffectNoSchedule}
	outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
)

// IsOutOfService reports whether the Node has the out-of-service taint.
func IsOutOfService(node *corev1.Node) bool { return taintOf(node, &outOfService) != nil }

// OutOfService taints a node on which nothing runs any more as out of service. Kubernetes then deletes the node's terminating pods and
// detaches volumes without waiting for the kubelet. Call it only when the node's server is gone or shut down permanently. It returns the
// node as stored.
func OutOfService(ctx context.Context, c client.Client, node *corev1.Node) (*corev1.Node, error) {
	if IsOutOfService(node) {
		return node, nil
	}
	base := node.DeepCopy()
	node = node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, outOfService)
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, node, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("marking node %s out of service: %w", node.Name, err)
	}
	return node, nil
}

// InService removes the out-of-service taint from a node whose server runs again. It returns the node as stored.
func InService(ctx context.Context, c client.Client, node *corev1.Node) (*corev1.Node, error) {
	base := node.DeepCopy()
	node = node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&outOfService) })
	// The patch replaces the whole list of taints, so the API server must refuse it when the list has changed.
	patch := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, node, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("taking node %s back into service: %w", node.Name, err)
	}
	return node, nil
}
