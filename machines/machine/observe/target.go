package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
)

// targetsLife is how long a count of the Nodes is reused, so that many drains share one list of Nodes.
const targetsLife = 5 * time.Second

// targets caches whether evicted pods can be scheduled on other Nodes.
type targets struct {
	// machines reads Machines, and cluster reads Nodes.
	machines, cluster client.Reader

	mu   sync.Mutex
	read time.Time
	// ready are the Nodes that accept pods. closed are those that do not, but may again: somebody else than drover has cordoned them.
	ready, closed few
	// coming reports whether a Machine is about to become a Node.
	coming bool
}

// few is a number of Nodes, and the name of one of them. If there is only one, the name shows which Node it is.
type few struct {
	number int
	name   string
}

func (f *few) add(name string) { f.number, f.name = f.number+1, name }

// beside returns the number of Nodes without the one with this name.
func (f few) beside(name string) int {
	if f.name == name {
		return f.number - 1
	}
	return f.number
}

// other reports whether the pods of a Node could be scheduled on another Node. If no other Node exists or is expected, a
// disruption budget can only keep the pods where they are (MC-60). Once the drain has begun, a Node that somebody else has cordoned
// counts too, because it may accept pods again before the drain times out. Nodes that drover drains never do (F-140).
func (t *targets) other(ctx context.Context, node *corev1.Node, now time.Time) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read.IsZero() || now.Sub(t.read) >= targetsLife {
		if err := t.look(ctx); err != nil {
			return false, err
		}
		t.read = now
	}
	others := t.ready.beside(node.Name)
	if drain.Begun(node) {
		others += t.closed.beside(node.Name)
	}
	return others > 0 || t.coming, nil
}

// look counts the Nodes that accept pods, and those that somebody other than drover has cordoned. If at most one accepts pods, look also
// reads whether a Machine has no Node yet. The caller must hold mu.
func (t *targets) look(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := t.cluster.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	t.ready, t.closed, t.coming = few{}, few{}, false
	for i := range nodes.Items {
		switch n := &nodes.Items[i]; {
		case !n.Spec.Unschedulable:
			t.ready.add(n.Name)
		case !drain.Begun(n):
			t.closed.add(n.Name)
		}
	}
	if t.ready.number > 1 {
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
