package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// evictRetry is the pause after a refused eviction. evictLimit is how long the eviction of a node's pods may take in all.
	evictRetry = 500 * time.Millisecond
	evictLimit = 2 * time.Minute
)

// remover removes nodes in the background: it taints the node, evicts its pods, and calls the provider.
type remover struct {
	o        Options
	provider *provider
	work     sync.WaitGroup

	// changed is called with a group whose instances have changed.
	changed func(group string)

	mu    sync.Mutex
	going map[string]Removal
	// failed is when a removal last failed.
	failed time.Time
}

func newRemover(o Options, p *provider, changed func(group string)) *remover {
	return &remover{o: o, provider: p, changed: changed, going: map[string]Removal{}}
}

func (r *remover) wait() { r.work.Wait() }

// inFlight returns, for each group, the number of nodes that are being removed but that the provider has not been asked to delete
// yet.
func (r *remover) inFlight() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, removal := range r.going {
		out[removal.Group]++
	}
	return out
}

// failedSince reports whether a removal has failed after the given time.
func (r *remover) failedSince(when time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed.After(when)
}

// full reports whether one more removal would exceed the limits for parallel removals or drains. The caller holds mu.
func (r *remover) full(c Removal) bool {
	drains := 0
	for _, removal := range r.going {
		if len(removal.Evict) > 0 {
			drains++
		}
	}
	return len(r.going) >= r.o.MaxScaleDownParallelism || len(c.Evict) > 0 && drains >= r.o.MaxDrainParallelism
}

// start starts a removal. It returns false when the node is being removed already, or when too many removals are running.
func (r *remover) start(ctx context.Context, c Removal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.going[c.Node.Name]; running || r.full(c) {
		return false
	}
	r.going[c.Node.Name] = c
	r.work.Go(func() {
		err := r.remove(ctx, c)
		if err != nil && ctx.Err() == nil {
			r.o.Log.Error(err, "Failed to remove a node", "node", c.Node.Name)
			if err := untaint(ctx, r.o.Client, c.Node.Name); err != nil {
				r.o.Log.Error(err, "Failed to remove the deletion taint", "node", c.Node.Name)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.going, c.Node.Name)
		if err != nil {
			r.failed = r.o.Clock.Now()
		}
	})
	return true
}

// errForeign is the error of a removal whose node does not belong to a group any more.
var errForeign = errors.New("the node does not belong to a node group")

func (r *remover) remove(ctx context.Context, c Removal) error {
	r.o.Log.Info("Scaling down", "group", c.Group, "node", c.Node.Name, "pods", len(c.Evict))
	if err := r.taint(ctx, c.Node.Name); err != nil {
		return err
	}
	if !r.pause(ctx, r.o.NodeDeleteDelay) {
		return ctx.Err()
	}
	for _, p := range c.Evict {
		if err := r.evict(ctx, p); err != nil {
			return err
		}
	}
	owner, err := r.provider.forNode(ctx, c.Node)
	if err == nil && owner.ID == "" {
		err = errForeign
	}
	if err != nil {
		return err
	}
	if err := r.provider.delete(ctx, owner.ID, c.Node); err != nil {
		return err
	}
	r.changed(owner.ID)
	// After a deletion, cluster-autoscaler requests the group's template for its metrics, and so does the simulation.
	_, _ = r.provider.template(ctx, owner.ID)
	return nil
}

// taint sets the deletion taint; its value is the time in seconds.
func (r *remover) taint(ctx context.Context, node string) error {
	n, err := r.o.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("tainting node %s: %w", node, err)
	}
	if hasTaint(n, TaintToBeDeleted) {
		return nil
	}
	taint := corev1.Taint{
		Key: TaintToBeDeleted, Value: strconv.FormatInt(r.o.Clock.Now().Unix(), 10), Effect: corev1.TaintEffectNoSchedule,
	}
	return patchTaints(ctx, r.o.Client, n, append(n.Spec.Taints, taint))
}

func untaint(ctx context.Context, client kubernetes.Interface, node string) error {
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", node, err)
	}
	rest := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == TaintToBeDeleted })
	return patchTaints(ctx, client, n, rest)
}

func patchTaints(ctx context.Context, client kubernetes.Interface, n *corev1.Node, taints []corev1.Taint) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("writing the taints of node %s: %w", n.Name, err)
	}
	return nil
}

// evict requests the pod's eviction until it is granted, and waits until the pod is gone.
func (r *remover) evict(ctx context.Context, p *corev1.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	deadline := r.o.Clock.Now().Add(evictLimit)
	for {
		err := r.o.Client.PolicyV1().Evictions(p.Namespace).Evict(ctx, eviction)
		now, getErr := r.o.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsNotFound(getErr) || getErr == nil && now.UID != p.UID {
			return nil
		}
		if r.o.Clock.Now().After(deadline) {
			return errors.Join(fmt.Errorf("evicting pod %s/%s: it still exists after %s", p.Namespace, p.Name, evictLimit), err)
		}
		if !r.pause(ctx, evictRetry) {
			return ctx.Err()
		}
	}
}

// pause blocks for d. It returns false when ctx ends first.
func (r *remover) pause(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := r.o.Clock.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
	}
	return ctx.Err() == nil
}
