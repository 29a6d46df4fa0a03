package drain

import (
	"fmt"
	"slices"
	"time"
)

// The rules that a drain keeps in every [world].

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("%v: ", w.now)+fmt.Sprintf(format, args...))
}

// enough reports whether drover could act for d since the cordon. Each time in which it could not may count for five minutes.
func (w *world) enough(d time.Duration) bool {
	return w.process.acted+time.Duration(w.process.gaps)*mostAway+time.Second >= d
}

// checkTurn checks, when the eviction of a pod is granted, that no other pod with a volume of its own is leaving.
func (w *world) checkTurn(p *modelPod) {
	if p.volume == "" || !p.first || w.process.mode.atOnce() {
		return
	}
	for _, other := range w.pods {
		if other.volume != "" && other.first && other.pod.DeletionTimestamp != nil && w.now < other.grantedAt+other.grace && !stays(&other.pod) {
			w.fault("%s is evicted while %s still has its grace period, and both have volumes", p.pod.Name, other.pod.Name)
		}
	}
}

// checkRound checks, after a round, that no pod waits while nothing is leaving. A new process waits again for the grace period of a pod
// that does not end.
func (w *world) checkRound(r *Result) {
	leaving := func(p *modelPod) bool {
		return p.pod.DeletionTimestamp != nil && w.now < max(p.grantedAt, w.process.since)+p.grace+2*overdueAfter
	}
	if w.outage || len(r.Detaching) > 0 || slices.ContainsFunc(w.pods, leaving) {
		return
	}
	for _, p := range w.pods {
		if p.first && p.lastAsked < w.now && p.pod.DeletionTimestamp == nil && !stays(&p.pod) {
			w.fault("%s waits although nothing is leaving", p.pod.Name)
		}
	}
}

// checkEnd checks, when the server is deleted, the pods that are still on its node. left holds those that the Event names.
func (w *world) checkEnd(left []Blocked) {
	w.log("%v: the server is deleted; left: %+v", w.now, left)
	for owner, n := range w.evictions {
		if n > 2*w.process.count+1 {
			w.fault("the pods of %s were evicted %d times by %d processes", owner, n, w.process.count)
		}
	}
	if w.byPerson() || w.isSilent() {
		return
	}
	cutOff := w.enough(w.timeout + LastGrace)
	for _, p := range w.pods {
		if stays(&p.pod) {
			continue
		}
		if !slices.ContainsFunc(left, func(b Blocked) bool { return b.Pod == nameOf(&p.pod) && b.Reason != "" }) {
			w.fault("the Event does not name %s", p.pod.Name)
		}
		if p.first || !toleratesDrain(&p.pod) {
			w.checkPod(p, cutOff)
		}
	}
}

// checkPod checks a pod that its server is deleted with. cutOff is true when the drain has had its time and the time for the last grace
// periods.
func (w *world) checkPod(p *modelPod, cutOff bool) {
	budgetOnly := w.now >= p.unanswered && w.now >= p.denied
	noTarget := w.process.noTarget && w.process.begunBy == w.process.count
	switch {
	case p.asked == 0:
		w.fault("%s was never asked", p.pod.Name)
	case p.pod.DeletionTimestamp != nil && w.now < p.grantedAt+p.grace && !cutOff:
		w.fault("%s has %v of its grace period left", p.pod.Name, p.grantedAt+p.grace-w.now)
	case p.pod.DeletionTimestamp == nil && noTarget && budgetOnly:
	case !w.enough(w.timeout):
		w.fault("%s is left although drover has acted for %v of %v", p.pod.Name, w.process.acted, w.timeout)
	case p.pod.DeletionTimestamp == nil && p.lastAsked < w.process.lastRound:
		w.fault("%s was not asked in the last round", p.pod.Name)
	}
}

// describe logs what is in the world.
func (w *world) describe() {
	w.log("timeout %v, %v from %v; forced %v, skipped %v, silent %v; target %v; %+v", w.timeout, w.newTimeout, w.changed, w.forced, w.skipped, w.silent, w.target, w.absences)
	for _, p := range w.pods {
		w.log("%s: grace %d s, budget %+v, volume %q, stuck %v, comes back %v, unanswered %v, denied %v", p.pod.Name, *p.pod.Spec.TerminationGracePeriodSeconds, *w.budgets[p.budget], p.volume, p.stuck, p.comesBack, p.unanswered, p.denied)
	}
}
