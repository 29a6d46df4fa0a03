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

// heldAgain is when a deployment that the brake held back is looked at again.
const heldAgain = 2 * time.Second

// brake caps how many Machines are in replacement at once over all deployments. What each has in replacement is known
// from its last plan; plans are made one after the other, so that no two take the same share.
type brake struct {
	mu sync.Mutex
	// most is the cap; 0 is none.
	most int32
	// inUse is what each deployment has in replacement. Primed says that all that were there at the start are in it.
	inUse  map[types.NamespacedName]int32
	primed bool
}

func newBrake(most int32) *brake {
	return &brake{most: most, inUse: map[types.NamespacedName]int32{}}
}

// plan makes a deployment's plan under the cap.
func (r *Reconciler) plan(ctx context.Context, s rollout.Snapshot) (rollout.Plan, error, error) {
	b := r.brake
	if b.most <= 0 {
		plan, invalid := rollout.Compute(s)
		return plan, invalid, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := r.primeBrake(ctx); err != nil {
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
	plan, invalid := rollout.Compute(s)
	if invalid == nil {
		b.use(key, plan.Replacing)
	}
	return plan, invalid, nil
}

// primeBrake counts, once, what the deployments have in replacement from before this process led. The mutex is held.
func (r *Reconciler) primeBrake(ctx context.Context) error {
	if r.brake.primed {
		return nil
	}
	var all v1alpha1.MachineDeploymentList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing deployments: %w", err)
	}
	for i := range all.Items {
		d := &all.Items[i]
		sets, err := r.sets(ctx, d.Namespace, string(d.UID))
		if err != nil {
			return err
		}
		s := rollout.Snapshot{Deployment: d, Now: r.clock.Now()}
		if s.Sets, err = r.withMachines(ctx, sets); err != nil {
			return err
		}
		r.brake.use(client.ObjectKeyFromObject(d), rollout.Replacing(s))
	}
	r.brake.primed = true
	return nil
}

// use takes note; the mutex is held.
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
