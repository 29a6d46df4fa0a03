package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// targetsLife is how long a count of the Nodes is reused, so that many drains share one list of Nodes.
const targetsLife = 5 * time.Second

// targets caches whether evicted pods can be scheduled on other Nodes.
type targets struct {
	// machines reads Machines, and cluster reads Nodes.
	machines, cluster client.Reader

	mu   sync.Mutex
	read time.Time
	// nodes is the number of Nodes that accept pods, and name is the name of one of them. If there is only one, name shows whether it
	// is the Node that is drained.
	nodes int
	name  string
	// coming reports whether a Machine is about to become a Node.
	coming bool
}

// other reports whether the pods of a Node could be scheduled on another Node. If no other Node exists or is expected, an
// eviction only terminates the pods (MC-60).
func (t *targets) other(ctx context.Context, node *corev1.Node, now time.Time) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read.IsZero() || now.Sub(t.read) >= targetsLife {
		if err := t.look(ctx); err != nil {
			return false, err
		}
		t.read = now
	}
	others := t.nodes
	if t.name == node.Name {
		others--
	}
	return others > 0 || t.coming, nil
}

// look counts the Nodes that accept pods. If there is at most one, it also looks for a Machine that is about to become a Node. The
// caller must hold mu.
func (t *targets) look(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := t.cluster.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	t.nodes, t.name, t.coming = 0, "", false
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !n.Spec.Unschedulable {
			t.nodes, t.name = t.nodes+1, n.Name
		}
	}
	if t.nodes > 1 {
		return nil
	}
	var machines v1alpha1.MachineList
	if err := t.machines.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.Status.NodeRef == nil && m.DeletionTimestamp == nil {
			t.coming = true
		}
	}
	return nil
}
