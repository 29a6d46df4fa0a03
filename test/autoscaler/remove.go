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
	// evictRetry is how long an eviction that was refused waits, evictLimit how long a node's pods may take in all.
	evictRetry = 500 * time.Millisecond
	evictLimit = 2 * time.Minute
)

// remover takes nodes away in the background: mark, move the pods, then ask the provider.
type remover struct {
	o        Options
	provider *provider
	work     sync.WaitGroup

	// changed is told of a group whose instances are others now.
	changed func(group string)

	mu    sync.Mutex
	going map[string]Removal
	// failed is when a removal failed last.
	failed time.Time
}

func newRemover(o Options, p *provider, changed func(group string)) *remover {
	return &remover{o: o, provider: p, changed: changed, going: map[string]Removal{}}
}

func (r *remover) wait() { r.work.Wait() }

// inFlight counts, by group, the removals that the provider has not been asked for yet.
func (r *remover) inFlight() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, removal := range r.going {
		out[removal.Group]++
	}
	return out
}

// failedSince tells whether a removal has failed after that time.
func (r *remover) failedSince(when time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed.After(when)
}

// full tells whether one more node would be too many at once. The caller holds mu.
func (r *remover) full(c Removal) bool {
	drains := 0
	for _, removal := range r.going {
		if len(removal.Evict) > 0 {
			drains++
		}
	}
	return len(r.going) >= r.o.MaxScaleDownParallelism || len(c.Evict) > 0 && drains >= r.o.MaxDrainParallelism
}

// start begins one removal; false when the node's is running already, or too many are.
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
			r.o.Log.Error(err, "Removing a node failed", "node", c.Node.Name)
			if err := untaint(ctx, r.o.Client, c.Node.Name); err != nil {
				r.o.Log.Error(err, "Taking the mark back failed", "node", c.Node.Name)
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

// errForeign is why a node that is of no group any more is not removed.
var errForeign = errors.New("it belongs to no node group")

func (r *remover) remove(ctx context.Context, c Removal) error {
	r.o.Log.Info("Scaling down", "group", c.Group, "node", c.Node.Name, "pods", len(c.Evict))
	if err := r.mark(ctx, c.Node.Name); err != nil {
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
	// For its metrics the original asks what such a node is like.
	_, _ = r.provider.template(ctx, owner.ID)
	return nil
}

// mark puts the taint on; its value is the time, in seconds.
func (r *remover) mark(ctx context.Context, node string) error {
	n, err := r.o.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("marking node %s: %w", node, err)
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

// evict asks for the pod's eviction until it is granted, then waits until the pod is gone.
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
			return errors.Join(fmt.Errorf("evicting pod %s/%s: it is still there after %s", p.Namespace, p.Name, evictLimit), err)
		}
		if !r.pause(ctx, evictRetry) {
			return ctx.Err()
		}
	}
}

// pause waits, and tells whether ctx still goes on.
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
