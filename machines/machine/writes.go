package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// retryCache is when a pass is repeated whose cache was older than this process's own last write, if the watch brings
	// nothing before.
	retryCache = 5 * time.Second
	// longestLag is how long a cache may stay behind an own write before it is believed all the same: after a restored
	// backup of etcd its versions are older than those of before.
	longestLag = time.Minute
)

// errCacheOld ends a pass whose cache shows a Machine or a Node from before this process's own last write of it. A write
// that follows from it would be refused, or repeat what is done already.
var errCacheOld = errors.New("the cache is older than the last write")

// writes remembers, for each Machine, what this process wrote last, and since when a change waits to be written. It is lost
// with the process, which costs at most a write.
type writes struct {
	mu       sync.Mutex
	machines map[types.NamespacedName]*written
}

// written is what is remembered of one Machine.
type written struct {
	uid           types.UID
	machine, node ownWrite
	// unwritten is since when a change that is not urgent waits; zero: none does.
	unwritten time.Time
	// begun: this process was allowed to begin the deletion.
	begun bool
	// seen is what was last seen or written of it.
	seen seen
	// ended is when this process removed the last finalizer; zero: it did not. The answer to that write has no new version.
	ended time.Time
}

// ownWrite is the version that an object had after a write, and when that was.
type ownWrite struct {
	uid     types.UID
	version string
	at      time.Time
}

func newWrites() *writes { return &writes{machines: map[types.NamespacedName]*written{}} }

// of returns what is remembered of a Machine; mu must be held. A Machine of the same name that came later starts empty.
func (w *writes) of(m *v1alpha1.Machine) *written {
	key := client.ObjectKeyFromObject(m)
	e := w.machines[key]
	if e == nil || e.uid != m.UID {
		e = &written{uid: m.UID}
		w.machines[key] = e
	}
	return e
}

// newer reports whether the write is later than the object that the cache shows. Versions of one resource are numbers that
// grow: Kubernetes promises that since 1.35, and older API servers hand out etcd's revisions, for which it holds too.
func (o ownWrite) newer(cached client.Object, now time.Time) bool {
	if o.uid != cached.GetUID() || now.Sub(o.at) > longestLag {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.version, cached.GetResourceVersion())
	return err == nil && order > 0
}

// wroteMachine notes a write of a Machine, which must not be changed any more; nothing of it waits.
func (w *writes) wroteMachine(m *v1alpha1.Machine, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(m)
	e.machine, e.unwritten, e.seen = ownWrite{m.UID, m.ResourceVersion, now}, time.Time{}, seenIn(m)
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		e.ended = now
	}
}

// wroteNode notes a write of a Machine's Node.
func (w *writes) wroteNode(m *v1alpha1.Machine, node *corev1.Node, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(m).node = ownWrite{node.UID, node.ResourceVersion, now}
}

// wroteNode takes the Node as it is after a write for the rest of the pass.
func (r *Reconciler) wroteNode(p *pass, node *corev1.Node) {
	p.facts.node = node
	r.writes.wroteNode(p.m, node, r.Clock.Now())
}

// cacheOld reports whether the cache shows the Machine, or its Node unless that is nil, from before the own last write, or a
// Machine that is gone since that write.
func (w *writes) cacheOld(m *v1alpha1.Machine, node *corev1.Node, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(m)
	ended := !e.ended.IsZero() && now.Sub(e.ended) <= longestLag
	return ended || e.machine.newer(m, now) || node != nil && e.node.newer(node, now)
}

// nothingWaits notes that the Machine is stored as it is.
func (w *writes) nothingWaits(m *v1alpha1.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(m).unwritten = time.Time{}
}

// mayWait returns how long a change that is not urgent may still wait; 0: it is to be written.
func (w *writes) mayWait(m *v1alpha1.Machine, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(m)
	if e.unwritten.IsZero() {
		e.unwritten = now
	}
	return max(0, mostDelay(m)-now.Sub(e.unwritten))
}

// hasBegun reports whether this process was allowed to begin the Machine's deletion.
func (w *writes) hasBegun(m *v1alpha1.Machine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(m).begun
}

// allowed notes whether the Machine's deletion may go on.
func (w *writes) allowed(m *v1alpha1.Machine, may bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(m).begun = may
}

// forget drops what is remembered of a Machine that is gone.
func (w *writes) forget(machine types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.machines, machine)
}

// persistDue writes what the pass has changed, unless nothing of it is urgent and it may still wait for a write that is.
func (r *Reconciler) persistDue(ctx context.Context, p *pass) error {
	if !p.remember && !urgent(p.base, p.m) && !equality.Semantic.DeepEqual(p.base, p.m) {
		if left := r.writes.mayWait(p.m, r.Clock.Now()); left > 0 {
			p.soonest(left)
			return nil
		}
	}
	return r.persist(ctx, p)
}

// persist writes what the pass has changed: finalizers, provider ID and status in one patch, since a Machine has no
// status subresource; nothing when nothing differs. A write of somebody else since the cache's version returns a Conflict,
// and another pass follows.
func (r *Reconciler) persist(ctx context.Context, p *pass) error {
	if equality.Semantic.DeepEqual(p.base, p.m) {
		r.writes.nothingWaits(p.m)
		return nil
	}
	changedError := !equality.Semantic.DeepEqual(p.base.Status.ErrorMessage, p.m.Status.ErrorMessage)
	patch := client.MergeFromWithOptions(p.base, client.MergeFromWithOptimisticLock{})
	if err := r.Control.GetClient().Patch(ctx, p.m, patch, fieldOwner); err != nil {
		r.writes.forgetRemoved(p.m)
		return fmt.Errorf("patching Machine %s: %w", p.m.Name, err)
	}
	drained := messageOf(p.base, v1alpha1.ConditionDeleting)
	p.base = p.m.DeepCopy()
	r.writes.wroteMachine(p.base, r.Clock.Now())
	r.drainBlocked(p, drained)
	if changedError && p.m.Status.ErrorReason != nil {
		r.warn(p.m, *p.m.Status.ErrorReason, ptr.Deref(p.m.Status.ErrorMessage, ""))
	}
	return nil
}
