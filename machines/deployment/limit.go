package deployment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// heldAgain is when a deployment that the brake held back is reconciled again.
const heldAgain = 2 * time.Second

// brake caps how many Machines are in replacement at once over all deployments. What each has in replacement is known
// from its last plan; plans are made one after the other, so that no two take the same share.
type brake struct {
	mu sync.Mutex
	// most is the cap; 0 is none.
	most int32
	// inUse is what each deployment has in replacement. primed: those from before this process led are in it.
	inUse  map[types.NamespacedName]int32
	primed bool
	sets   *sets
}

// newBrake returns a brake that caps replacements at most; 0 is no cap.
func newBrake(most int32, sets *sets) *brake {
	return &brake{most: most, inUse: map[types.NamespacedName]int32{}, sets: sets}
}

// plan returns a deployment's plan under the cap. invalid is what in the deployment cannot be followed.
func (b *brake) plan(ctx context.Context, s rollout.Snapshot) (plan rollout.Plan, invalid, err error) {
	if b.most <= 0 {
		plan, invalid = rollout.Compute(s)
		return plan, invalid, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.prime(ctx, s.Now); err != nil {
		return rollout.Plan{}, nil, err
	}
	key := client.ObjectKeyFromObject(s.Deployment)
	share := b.most
	for other, n := range b.inUse {
		if other != key {
			share -= n
		}
	}
	s.Brake = new(max(0, share))
	plan, invalid = rollout.Compute(s)
	if invalid == nil {
		b.use(key, plan.Replacing)
	}
	return plan, invalid, nil
}

// prime counts, once, what the deployments have in replacement from before this process led. The mutex is held.
func (b *brake) prime(ctx context.Context, now time.Time) error {
	if b.primed {
		return nil
	}
	var all v1alpha1.MachineDeploymentList
	if err := b.sets.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing deployments: %w", err)
	}
	for i := range all.Items {
		d := &all.Items[i]
		owned, err := b.sets.owned(ctx, d)
		if err != nil {
			return err
		}
		b.use(client.ObjectKeyFromObject(d), rollout.Replacing(rollout.Snapshot{Deployment: d, Sets: owned, Now: now}))
	}
	b.primed = true
	return nil
}

// use records what a deployment has in replacement; the mutex is held.
func (b *brake) use(deployment types.NamespacedName, n int32) {
	if n == 0 {
		delete(b.inUse, deployment)
		return
	}
	b.inUse[deployment] = n
}

func (b *brake) forget(deployment types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.inUse, deployment)
}
