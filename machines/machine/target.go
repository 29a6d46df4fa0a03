package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// targetsLife is how long what is known of places for pods is used again, so that many drains cost one look.
const targetsLife = 5 * time.Second

// targets is what is known of places for evicted pods.
type targets struct {
	mu   sync.Mutex
	read time.Time
	// nodes is how many take pods, and one of their names: enough to know whether there is another.
	nodes int
	one   string
	// coming: a Machine is about to become a node.
	coming bool
}

// hasTarget tells whether pods of a node could go anywhere else: without another node, present or to come, an eviction
// only ends them (MC-60).
func (r *Reconciler) hasTarget(ctx context.Context, node *corev1.Node) (bool, error) {
	t := &r.targets
	t.mu.Lock()
	defer t.mu.Unlock()
	now := r.Clock.Now()
	if t.read.IsZero() || now.Sub(t.read) >= targetsLife {
		if err := r.lookForTargets(ctx, t); err != nil {
			return false, err
		}
		t.read = now
	}
	others := t.nodes
	if t.one == node.Name {
		others--
	}
	return others > 0 || t.coming, nil
}

func (r *Reconciler) lookForTargets(ctx context.Context, t *targets) error {
	var nodes corev1.NodeList
	if err := r.Target.GetClient().List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	t.nodes, t.one, t.coming = 0, "", false
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !n.Spec.Unschedulable {
			t.nodes, t.one = t.nodes+1, n.Name
		}
	}
	if t.nodes > 1 {
		return nil
	}
	var machines v1alpha1.MachineList
	if err := r.Control.GetClient().List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.Status.NodeRef == nil && m.DeletionTimestamp == nil {
			t.coming = true
		}
	}
	return nil
}
