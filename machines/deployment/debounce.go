package deployment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// debounce delays the plan for a changed template by the time gather, because a client may restore the former template
// immediately. It remembers when the deployment's current spec was first seen.
type debounce struct {
	// live reads from the API server itself, without a cache.
	live  client.Reader
	clock clock.PassiveClock

	mu   sync.Mutex
	seen map[types.NamespacedName]seenSpec
}

type seenSpec struct {
	generation int64
	at         time.Time
}

func newDebounce(live client.Reader, now clock.PassiveClock) *debounce {
	return &debounce{live: live, clock: now, seen: map[types.NamespacedName]seenSpec{}}
}

// since returns when the given generation of a deployment was first seen. For a new generation it returns now.
func (b *debounce) since(deployment types.NamespacedName, generation int64, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen, ok := b.seen[deployment]
	if !ok || seen.generation != generation {
		seen = seenSpec{generation: generation, at: now}
		b.seen[deployment] = seen
	}
	return seen.at
}

func (b *debounce) forget(deployment types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seen, deployment)
}

// wait returns how long to wait before a plan may be carried out; 0 means not to wait. A plan for a changed template waits until the spec
// has not changed for the time gather. Such a plan, and a plan that makes a set smaller, also needs the newest spec, because the newest
// spec may contain the former template again: wait returns errCacheOld while the API server has a newer spec than the informer cache.
func (b *debounce) wait(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) (time.Duration, error) {
	key := client.ObjectKeyFromObject(d)
	changed := p.Revision != "" && d.Annotations[v1alpha1.AnnotationRevision] != ""
	if changed {
		now := b.clock.Now()
		if left := gather - now.Sub(b.since(key, d.Generation, now)); left > 0 {
			return left, nil
		}
	} else {
		b.forget(key)
	}
	if !changed && !shrinks(p) {
		return 0, nil
	}
	var now v1alpha1.MachineDeployment
	if err := b.live.Get(ctx, key, &now); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading the MachineDeployment: %w", err)
	}
	if now.UID != d.UID || now.Generation != d.Generation {
		return 0, errCacheOld
	}
	return 0, nil
}

// shrinks reports whether a plan makes a set smaller.
func shrinks(p rollout.Plan) bool {
	for i := range p.Changes {
		if stored := p.Changes[i].Set.Spec.Replicas; stored != nil && p.Changes[i].Replicas < *stored {
			return true
		}
	}
	return false
}
