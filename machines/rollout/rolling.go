package rollout

import (
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// roll takes one step of a RollingUpdate: the current set grows within the surge, and the old sets shrink as long as enough Machines stay
// available.
func (w *work) roll() {
	if !w.rolling() {
		w.resize(w.current, w.replicas, fmt.Sprintf("the deployment wants %d", w.replicas))
		return
	}
	w.shrinkMarked(w.sizes()-w.allowed(), w.floor())
	if w.shrank() {
		// The deployment became smaller during the rollout: every active set shrinks by its share, and enough Machines stay available (MC-29,
		// MCM-13). When removals have already lowered the sets far enough, nothing is left to do. The next plan continues the rollout.
		if allowed := w.allowed(); w.sizes() > allowed {
			w.scaleInProportion(w.active(), allowed-w.sizes(), fmt.Sprintf("the deployment shrank during a rollout: its share of %d", allowed))
		}
		return
	}
	w.grow()
	w.shrinkOld()
	w.breakDeadlock()
}

// shrank reports whether the deployment's size is lower than the desired size that is written in an annotation of an active set.
func (w *work) shrank() bool { return w.told(func(size int32) bool { return size > w.replicas }) }

// shrinkMarked follows a smaller size while several sets have Machines: it shrinks by up to surplus the sets whose Machines have the
// annotation delete-machine (MC-28), as long as at least floor Machines stay available.
func (w *work) shrinkMarked(surplus, floor int32) {
	for _, s := range w.sets {
		for _, f := range s.staying() {
			next := s.size - 1
			if surplus <= 0 || next < 0 || !v1alpha1.FirstToDelete(f.Machine) {
				break
			}
			if s.available() > s.availableAt(next) && w.available() <= floor {
				break
			}
			w.resize(s, next, "there are too many Machines, and one of this set is annotated for deletion")
			surplus--
		}
	}
}

// grow raises the current set as far as the surge allows. Machines that this rollout removed count as long as they have a server (MC-17),
// so that a rollout never needs more quota than replicas plus surge. Machines that are deleted for another reason do not count: otherwise a
// larger size would have to wait for their drains.
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
	// Machines that are created only to reach the deployment's size replace no others, so the limit on replacements does not apply to them.
	n := min(room, w.replicas-c.size)
	lacking := max(0, w.replicas-w.sizes())
	n = min(n, lacking+w.limited(n-min(n, lacking)))
	w.resize(c, c.size+n, fmt.Sprintf("rolling: room for %d within %d replicas and %d surge", room, w.replicas, w.limits.surge))
}

// shrinkOld lowers the old sets, the oldest first. It first removes Machines that are not available, then available Machines beyond the
// number that must stay available. New Machines that are not available yet replace no old ones, so that a template that never works stops
// the rollout (MCM-10).
func (w *work) shrinkOld() {
	owed := w.current.size - w.current.available()
	surplus := w.sizes() - w.floor() - owed
	if surplus <= 0 {
		return
	}
	for _, s := range w.old() {
		if n := w.limited(min(s.size-s.available(), surplus)); n > 0 {
			surplus -= w.removeUnavailable(s, n)
		}
	}
	if owed > 0 && w.deadlineExceeded() {
		w.note(fmt.Sprintf("no progress within the deadline: %d new Machines are not available, so available old Machines stay", owed))
		return
	}
	spare := w.available() - w.floor()
	for _, s := range w.old() {
		if n := w.limited(min(s.size, spare)); n > 0 {
			spare -= w.remove(s, n, fmt.Sprintf("rolling: %d more than the %d Machines that must be available", spare, w.floor()), anyMachine)
		}
	}
}

// breakDeadlock removes one unavailable Machine of an old set when the rollout cannot continue: no set has anything to do, all new Machines
// are available, and leaving Machines whose deletion does not end use up the surge. The removal costs no availability and makes room for a
// new Machine.
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
		if s.size > s.available() && w.limited(1) > 0 {
			w.note("rolling: Machines that are being deleted use up the surge, so an unavailable Machine is removed to make room")
			w.removeUnavailable(s, 1)
			return
		}
	}
}

// removeUnavailable lowers an old set by up to n replicas: those that have no Machine yet, and Machines that are not available.
func (w *work) removeUnavailable(s *setWork, n int32) int32 {
	return w.remove(s, n, "rolling: unavailable Machines are removed first", unavailable)
}
