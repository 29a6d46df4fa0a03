package rollout

import (
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// roll takes one step of a RollingUpdate: the current set grows inside the surge, the old ones shrink down to the floor.
func (w *work) roll() {
	if !w.rolling() {
		w.resize(w.current, w.replicas, fmt.Sprintf("the deployment wants %d", w.replicas))
		return
	}
	w.shrinkMarked()
	if w.shrank() {
		w.shrinkInProportion()
		return
	}
	w.grow()
	w.shrinkOld()
	w.breakDeadlock()
}

// shrank reports whether the size was lowered since the active sets were last told of it.
func (w *work) shrank() bool {
	for _, s := range w.sets {
		if told, ok := number(s.set, v1alpha1.AnnotationDesiredReplicas); ok && s.size > 0 && told > w.replicas {
			return true
		}
	}
	return false
}

// shrinkInProportion follows a smaller size in the middle of a roll: every active set gives its share, and none goes below
// the floor (MC-29, MCM-13). Where removals have lowered the sets already, nothing is left to do. The roll goes on with
// the next plan.
func (w *work) shrinkInProportion() {
	var active []*setWork
	for _, s := range w.sets {
		if s.size > 0 {
			active = append(active, s)
		}
	}
	allowed := w.allowed()
	if w.sizes() > allowed {
		w.scaleInProportion(active, allowed-w.sizes(), fmt.Sprintf("the deployment shrank in a roll: its share of %d", allowed))
	}
}

// shrinkMarked lets marked Machines choose the set that shrinks, when the deployment was made smaller during a roll
// (MC-28), as long as the floor holds.
func (w *work) shrinkMarked() {
	surplus := w.sizes() - w.replicas - w.limits.surge
	for _, s := range w.sets {
		for _, f := range s.staying() {
			next := s.size - 1
			if surplus <= 0 || next < 0 || f.Machine.Annotations[v1alpha1.AnnotationDeleteMachine] == "" {
				break
			}
			if s.available() > s.availableAt(next) && w.available() <= w.floor() {
				break
			}
			w.resize(s, next, "there are too many, and one of its Machines is marked for deletion")
			surplus--
		}
	}
}

// grow raises the current set as far as the surge allows. Machines that this rollout removed count as long as they have a
// server (MC-17), so that a rollout never needs more quota than replicas plus surge. Machines that leave for another
// reason do not count: a larger size does not wait for their drains.
func (w *work) grow() {
	c := w.current
	if c.size > w.replicas {
		w.resize(c, w.replicas, fmt.Sprintf("the deployment wants %d", w.replicas))
		return
	}
	room := w.roomFor(c)
	if c.size == w.replicas || room <= 0 {
		return
	}
	// What the deployment lacks for its size is no replacement.
	n := min(room, w.replicas-c.size)
	lacking := max(0, w.replicas-w.sizes())
	n = min(n, lacking+w.braked(n-min(n, lacking)))
	w.resize(c, c.size+n, fmt.Sprintf("rolling: %d fit below %d replicas and %d surge", room, w.replicas, w.limits.surge))
}

// shrinkOld lowers the old sets, oldest first: what is not available goes first, then what is available beyond the
// floor. What the current set still owes is held back, so that a template that never works stops the roll (MCM-10).
func (w *work) shrinkOld() {
	owed := w.current.size - w.current.available()
	surplus := w.sizes() - w.floor() - owed
	if surplus <= 0 {
		return
	}
	for _, s := range w.old() {
		if n := w.braked(min(s.size-s.available(), surplus)); n > 0 {
			surplus -= w.removeUnavailable(s, n)
		}
	}
	if owed > 0 && w.deadlineExceeded() {
		w.note(fmt.Sprintf("no progress within the deadline: %d new Machines are not available, available old ones stay", owed))
		return
	}
	spare := w.available() - w.floor()
	for _, s := range w.old() {
		if n := w.braked(min(s.size, spare)); n > 0 {
			spare -= w.remove(s, n, fmt.Sprintf("rolling: %d beyond the floor of %d available", spare, w.floor()), anyMachine)
		}
	}
}

// breakDeadlock lets one Machine of an old set go that is not available, when nothing moves: no set has anything to do,
// all new Machines are available, and what is leaving does not go, so that the surge stays used up. It costs no
// availability, and its room goes to a new Machine.
func (w *work) breakDeadlock() {
	if w.sizes() < w.replicas || w.current.size > w.current.available() {
		return
	}
	for _, s := range w.sets {
		if s.size != s.before || s.size != int32(len(s.living)) || len(s.removals) != len(s.set.Spec.Removals) {
			return
		}
	}
	for _, s := range w.old() {
		if s.size > s.available() && w.braked(1) > 0 {
			w.note("nothing moves: what is leaving does not go, so one that is not available makes room")
			w.removeUnavailable(s, 1)
			return
		}
	}
}

// removeUnavailable lowers an old set by up to n Machines that are not available, or do not exist yet.
func (w *work) removeUnavailable(s *setWork, n int32) int32 {
	return w.remove(s, n, "rolling: not available, so it goes first", unavailable)
}
