package deployment

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/memory"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// debounce delays the plan for a changed template by the time gather, because a client may restore the former template
// immediately. It remembers when the deployment's current spec was first seen.
type debounce struct {
	// live reads from the API server itself, without a cache.
	live  client.Reader
	clock clock.PassiveClock
	seen  memory.Of[seenSpec]
}

type seenSpec struct {
	generation int64
	at         time.Time
}

// wait returns how long to wait before a plan may be carried out; 0 means not to wait. A plan for a changed template waits until the spec
// has not changed for the time gather. Such a plan, and a plan that makes a set smaller, also needs the newest spec, because the newest
// spec may contain the former template again: wait returns [ownership.ErrCacheOld] while the API server has a newer spec than the informer cache.
func (b *debounce) wait(ctx context.Context, d *v1alpha1.MachineDeployment, p rollout.Plan) (time.Duration, error) {
	changed := p.Revision != "" && d.Annotations[v1alpha1.AnnotationRevision] != ""
	if changed {
		seen, _ := b.seen.Of(d)
		if seen.generation != d.Generation {
			*seen = seenSpec{generation: d.Generation, at: b.clock.Now()}
		}
		if left := gather - b.clock.Since(seen.at); left > 0 {
			return left, nil
		}
	} else {
		b.seen.Forget(client.ObjectKeyFromObject(d))
	}
	if !changed && !shrinks(p) {
		return 0, nil
	}
	return 0, ownership.CheckCurrent(ctx, b.live, v1alpha1.MachineDeploymentKind, d)
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
