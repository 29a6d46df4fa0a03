package rollout

import (
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Replacing returns how many Machines a deployment is replacing now, according to the state of its sets. It needs no valid spec.
func Replacing(s Snapshot) int32 {
	w := newWork(s)
	if w.d.Spec.Replicas != nil {
		w.replicas = *w.d.Spec.Replicas
	}
	w.current = w.largest(func(set *v1alpha1.MachineSet) bool { return Follows(set, w.d) })
	if w.current != nil {
		w.beginRecords()
	}
	return w.replacing()
}

// replacing counts the Machines in replacement: new Machines that are not available yet, and old Machines that the rollout removed. It
// returns 0 for a rollout that is paused or was stopped by its deadline, so that other deployments may replace more Machines within the
// limit over all deployments.
func (w *work) replacing() int32 {
	if !w.moving() {
		return 0
	}
	return w.current.size - w.current.available() + w.removed()
}

// moving reports whether drover is replacing Machines of an old template.
func (w *work) moving() bool {
	return w.current != nil && !w.d.Spec.Paused && !w.stalled() && strategyOf(w.d) != v1alpha1.OnDelete && w.rolling()
}

// limited returns how many Machines may be replaced now: n, or fewer when otherwise too many Machines would be in replacement.
func (w *work) limited(n int32) int32 {
	if w.limit == nil || n <= 0 {
		return max(0, n)
	}
	allowed := min(n, max(0, *w.limit-w.replacing()))
	if allowed < n && !w.limitHit {
		w.limitHit = true
		w.note(fmt.Sprintf("limited: at most %d Machines of this deployment may be replaced at present, because of the limit over all deployments", *w.limit))
	}
	return allowed
}

// leavingNodes returns the names of the Nodes of Machines that are being deleted or are named for removal.
func (w *work) leavingNodes() (nodes []string) {
	for _, s := range w.sets {
		nodes = append(nodes, s.leavingNodes...)
	}
	return nodes
}

// rolledNodes returns the names of the Nodes of living Machines of an old template, while the rollout continues.
func (w *work) rolledNodes() []string {
	if !w.moving() {
		return nil
	}
	var nodes []string
	for _, s := range w.old() {
		for _, f := range s.living {
			if ref := f.Machine.Status.NodeRef; ref != nil {
				nodes = append(nodes, ref.Name)
			}
		}
	}
	return nodes
}
