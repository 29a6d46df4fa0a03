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

// limitRetry is the interval at which a deployment is reconciled while the replacement limit stops its rollout.
const limitRetry = 2 * time.Second

// replacementLimit limits how many Machines of all deployments together are replaced at the same time. The last plan of a
// deployment shows how many of its Machines are replaced. Plans are made one after the other, so that two plans never use the
// same part of the limit.
type replacementLimit struct {
	mu sync.Mutex
	// most is the limit; 0 means no limit.
	most int32
	// inUse holds how many Machines each deployment replaces. counted is true when inUse includes the replacements that began before
	// this process became the leader.
	inUse   map[types.NamespacedName]int32
	counted bool
	sets    *sets
}

// newReplacementLimit returns a limit that allows the given number of replacements; 0 means no limit.
func newReplacementLimit(most int32, sets *sets) *replacementLimit {
	return &replacementLimit{most: most, inUse: map[types.NamespacedName]int32{}, sets: sets}
}

// plan returns the plan of a deployment, which starts no more replacements than the limit allows. invalid is the error in the
// deployment's spec.
func (l *replacementLimit) plan(ctx context.Context, s rollout.Snapshot) (plan rollout.Plan, invalid, err error) {
	if l.most <= 0 {
		plan, invalid = rollout.Compute(s)
		return plan, invalid, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.countExisting(ctx, s.Now); err != nil {
		return rollout.Plan{}, nil, err
	}
	key := client.ObjectKeyFromObject(s.Deployment)
	share := l.most
	for other, n := range l.inUse {
		if other != key {
			share -= n
		}
	}
	s.ReplacementLimit = new(max(0, share))
	plan, invalid = rollout.Compute(s)
	if invalid == nil {
		l.inUse[key] = plan.Replacing
	}
	return plan, invalid, nil
}

// countExisting counts the replacements that began before this process became the leader. It does so only once. mu must be held.
func (l *replacementLimit) countExisting(ctx context.Context, now time.Time) error {
	if l.counted {
		return nil
	}
	var all v1alpha1.MachineDeploymentList
	if err := l.sets.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing deployments: %w", err)
	}
	for i := range all.Items {
		d := &all.Items[i]
		owned, err := l.sets.owned(ctx, d)
		if err != nil {
			return err
		}
		l.inUse[client.ObjectKeyFromObject(d)] = rollout.Replacing(rollout.Snapshot{Deployment: d, Sets: owned, Now: now})
	}
	l.counted = true
	return nil
}

func (l *replacementLimit) forget(deployment types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inUse, deployment)
}
