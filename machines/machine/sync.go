package machine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// retryStart is how soon to look again for the DaemonSet pods that a node is waiting for: pods are not watched.
const retryStart = 5 * time.Second

// syncNode brings labels, annotations and taints to the Node, and removes the startup taint when the first start of the
// Node is complete. It writes the Node with one patch, and only when something differs. What no pod needs goes with the
// patch that ends the first start, unless that takes longer than [longestUnwritten].
func (r *Reconciler) syncNode(ctx context.Context, p *pass) (bool, error) {
	want, err := r.wanted(ctx, p)
	if err != nil {
		return false, err
	}
	if err := r.awaitStart(ctx, p); err != nil {
		return false, err
	}
	p.facts.synced = true
	started := p.facts.started || len(p.awaited) == 0
	had, startup := marksIn(p.m), ""
	if started && !had.Started {
		startup = r.StartupTaint
	}
	node := p.facts.node.DeepCopy()
	changed := mark(node, want, had, startup)
	left := longestUnwritten - r.Clock.Now().Sub(node.CreationTimestamp.Time)
	if changed && !started && left > 0 && onlyLacksOwn(p.facts.node, node) {
		p.soonest(left)
		changed = false
	}
	if changed {
		if err := r.patchMarks(ctx, p, node, want); err != nil {
			return false, err
		}
		ctrl.LoggerFrom(ctx).V(1).Info("Node synced", "node", node.Name, "started", started)
	}
	p.m.Status.NodeMarks = recordOfMarks(want)
	p.m.Status.NodeMarks.Started = started
	p.facts.started = started
	return true, nil
}

// patchMarks writes the Node. When drover is to put keys on it that the Machine's status does not record, the status is
// written first: a key without a record would never be removed.
func (r *Reconciler) patchMarks(ctx context.Context, p *pass, node *corev1.Node, want v1alpha1.NodeMarks) error {
	p.m.Status.NodeMarks = recordAhead(marksIn(p.m), want)
	if !recordsKeys(marksIn(p.base), want) {
		if err := r.persist(ctx, p); err != nil {
			p.unsynced = true
			return err
		}
	}
	// The list of taints is replaced as a whole, so it must be the one that was read.
	patch := client.MergeFromWithOptions(p.facts.node, client.MergeFromWithOptimisticLock{})
	if err := r.Target.GetClient().Patch(ctx, node, patch, fieldOwner); err != nil {
		p.unsynced = true
		return fmt.Errorf("patching node %s: %w", node.Name, err)
	}
	r.wroteNode(p, node)
	return nil
}

// wanted returns the labels, annotations and taints that the Machine's Node is to have. A start-up taint of another
// program is not among them: the kubelet registers with it, and that program removes it.
func (r *Reconciler) wanted(ctx context.Context, p *pass) (v1alpha1.NodeMarks, error) {
	labels, err := r.Bootstrap.NodeLabels(ctx, p.m)
	if err != nil {
		return v1alpha1.NodeMarks{}, err
	}
	w := wanted(p.m, labels, hostOf(p))
	for _, t := range p.m.Spec.Taints {
		if slices.Contains(r.OtherStartupTaints, t.Key) {
			delete(w.Taints, taintKey(t))
		}
	}
	return w, nil
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

// missNode looks live for a Node that the cache does not have although its server lives. Its absence is a finding of
// health, which shows in the Ready condition; nothing follows from it here.
func (r *Reconciler) missNode(ctx context.Context, p *pass) error {
	var node corev1.Node
	err := r.Target.GetAPIReader().Get(ctx, types.NamespacedName{Name: p.m.Status.NodeRef.Name}, &node)
	switch {
	case err == nil && matcherOf(p).is(&node):
		p.unsynced = true
		p.soonest(retryStart)
	case err == nil:
		p.detail = cmp.Or(p.facts.taken, "node "+node.Name+" does not belong to this Machine's server")
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading node %s: %w", p.m.Status.NodeRef.Name, err)
	default:
		p.detail = fmt.Sprintf("the Node is not there, though server %s is %s", p.facts.cloud.Server.ID, p.facts.cloud.Server.Status)
	}
	return nil
}
