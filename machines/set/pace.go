package set

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// statusPace is the least time between two writes of a set's numbers: a set that makes or loses one Machine after the
// other writes what it came to, not each of them. The first change after a pause is written at once, and so are errors.
const statusPace = 2 * time.Second

// pace remembers when this process wrote the status of each set.
type pace struct {
	mu      sync.Mutex
	written map[types.NamespacedName]time.Time
}

func newPace() *pace { return &pace{written: map[types.NamespacedName]time.Time{}} }

// left is how long the next write has to wait; when it need not, now counts as its time.
func (p *pace) left(set types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.written[set]; ok && now.Sub(last) < statusPace {
		return statusPace - now.Sub(last)
	}
	p.written[set] = now
	return 0
}

func (p *pace) forget(set types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, set)
}

// showStatus writes the status when it differs from what is stored and its time has come, and tells how long it is
// until then.
func (r *Reconciler) showStatus(ctx context.Context, set *v1alpha1.MachineSet, st v1alpha1.MachineSetStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(ownedStatus(set.Status), ownedStatus(st)) {
		return 0, nil
	}
	left := r.pace.left(client.ObjectKeyFromObject(set), r.clock.Now())
	if left > 0 && ptr.Equal(set.Status.ErrorReason, st.ErrorReason) {
		return left, nil
	}
	return 0, r.writeStatus(ctx, set, st)
}
