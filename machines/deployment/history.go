package deployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/rollout"
)

// keptPlans is how many plans are kept per deployment.
const keptPlans = 100

// Record is a plan that was carried out, for people to see.
type Record struct {
	Time time.Time
	// Generation of the deployment that it was made for.
	Generation int64
	Steps      []rollout.Step
}

// history keeps the last plans of each deployment in memory: explanation, not state.
type history struct {
	mu    sync.Mutex
	plans map[types.NamespacedName][]Record
}

func newHistory() *history { return &history{plans: map[types.NamespacedName][]Record{}} }

// keep adds a plan that does something.
func (h *history) keep(deployment types.NamespacedName, r Record) {
	if len(r.Steps) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := append(h.plans[deployment], r)
	h.plans[deployment] = all[max(0, len(all)-keptPlans):]
}

func (h *history) forget(deployment types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.plans, deployment)
}

// Plans returns the last plans of a deployment, oldest first, at most a hundred, as long as this process has led.
func (r *Reconciler) Plans(deployment types.NamespacedName) []Record {
	r.plans.mu.Lock()
	defer r.plans.mu.Unlock()
	return append([]Record(nil), r.plans.plans[deployment]...)
}
