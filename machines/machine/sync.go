package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncNode brings labels, annotations and taints to the node, and takes the startup taint off when the node can take
// pods: in one patch, and only when something differs.
func (r *Reconciler) syncNode(ctx context.Context, p *pass) (bool, error) {
	labels, err := r.Bootstrap.NodeLabels(ctx, p.m)
	if err != nil {
		return false, err
	}
	p.facts.synced = true
	node := p.facts.node.DeepCopy()
	start := r.StartupTaint != "" && started(node, r.StartupConditions)
	changed, err := mark(node, wanted(p.m, labels), r.StartupTaint, start)
	if err != nil || !changed {
		return true, err
	}
	// The list of taints is replaced as a whole, so it must be the one that was read.
	patch := client.MergeFromWithOptions(p.facts.node, client.MergeFromWithOptimisticLock{})
	if err := r.Target.GetClient().Patch(ctx, node, patch, fieldOwner); err != nil {
		p.unsynced = true
		return false, fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	p.facts.node = node
	ctrl.LoggerFrom(ctx).V(1).Info("Node synced", "node", node.Name, "started", start)
	return true, nil
}

// started tells whether a node can take pods: it is Ready, and so is what the operator named besides.
func started(node *corev1.Node, conditions []corev1.NodeConditionType) bool {
	return isTrue(node, corev1.NodeReady) &&
		!slices.ContainsFunc(conditions, func(name corev1.NodeConditionType) bool { return !isTrue(node, name) })
}
