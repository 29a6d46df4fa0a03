package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryStart is how soon to look again for the DaemonSet pods that a node is waiting for: pods are not watched.
const retryStart = 5 * time.Second

// syncNode brings labels, annotations and taints to the node, and takes the startup taint off when the node can take
// pods: in one patch, and only when something differs.
func (r *Reconciler) syncNode(ctx context.Context, p *pass) (bool, error) {
	labels, err := r.Bootstrap.NodeLabels(ctx, p.m)
	if err != nil {
		return false, err
	}
	start, err := r.mayStart(ctx, p)
	if err != nil {
		return false, err
	}
	p.facts.synced = true
	node := p.facts.node.DeepCopy()
	changed, err := mark(node, wanted(p.m, labels, hostOf(p)), r.StartupTaint, start)
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

// hostOf identifies the physical host, as the cloud says now, else as the status remembers.
func hostOf(p *pass) string {
	if s := p.facts.cloud.Server; s != nil && s.HostID != "" {
		return s.HostID
	}
	var known providerStatus
	if s := p.m.Status.ProviderStatus; s == nil || json.Unmarshal(s.Raw, &known) != nil {
		return ""
	}
	return known.HostID
}

// starting tells whether the node still bears the startup taint because it was never taken off.
func (r *Reconciler) starting(node *corev1.Node) bool {
	return r.StartupTaint != "" && !recorded(node).Started &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == r.StartupTaint })
}

// mayStart tells whether the startup taint may go: the node is Ready, and so is what the operator named besides. It looks
// at pods only while everything else is there.
func (r *Reconciler) mayStart(ctx context.Context, p *pass) (bool, error) {
	node := p.facts.node
	if r.StartupTaint == "" || !started(node, r.StartupConditions) {
		return false, nil
	}
	if len(r.StartupDaemonSets) == 0 || !r.starting(node) {
		return true, nil
	}
	var pods corev1.PodList
	if err := r.Target.GetAPIReader().List(ctx, &pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return false, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	for _, set := range r.StartupDaemonSets {
		if !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return readyPodOf(&pod, set) }) {
			p.detail = fmt.Sprintf("DaemonSet %s has no Ready pod on it yet", set)
			p.soonest(retryStart)
			return false, nil
		}
	}
	return true, nil
}

// readyPodOf tells whether a pod is the DaemonSet's and Ready.
func readyPodOf(pod *corev1.Pod, set types.NamespacedName) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == set.Name && pod.Namespace == set.Namespace &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// started tells whether a node can take pods: it is Ready, and so is what the operator named besides.
func started(node *corev1.Node, conditions []corev1.NodeConditionType) bool {
	return isTrue(node, corev1.NodeReady) &&
		!slices.ContainsFunc(conditions, func(name corev1.NodeConditionType) bool { return !isTrue(node, name) })
}

// missNode looks live for a Node that the cache does not have although its server lives. Its absence is a finding of
// health, which shows in the Ready condition; nothing follows from it here.
func (r *Reconciler) missNode(ctx context.Context, p *pass) error {
	var node corev1.Node
	err := r.Target.GetAPIReader().Get(ctx, types.NamespacedName{Name: p.m.Status.NodeRef.Name}, &node)
	switch {
	case err == nil && (seeker{machine: p.m, server: p.facts.cloud.Server.ID}).is(&node):
		p.unsynced = true
		p.soonest(retryStart)
	case err == nil:
		p.detail = "a Node of that name is another's: " + node.Name
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading node %s: %w", p.m.Status.NodeRef.Name, err)
	default:
		p.detail = fmt.Sprintf("the Node is not there, though server %s is %s", p.facts.cloud.Server.ID, p.facts.cloud.Server.Status)
	}
	return nil
}
