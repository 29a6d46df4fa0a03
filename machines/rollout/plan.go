package rollout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Compute decides what to write for a deployment. It returns an error when the spec of the deployment is invalid. The error is written for
// users; the caller must then change nothing.
func Compute(s Snapshot) (Plan, error) {
	if err := check(s.Deployment); err != nil {
		return Plan{}, err
	}
	w := newWork(s)
	unseen := w.shareRemovals()
	size, restored := w.decideSize(s, unseen)
	w.replicas = size
	lim, err := limitsOf(s.Deployment, size)
	if err != nil {
		return Plan{}, err
	}
	w.limits = lim

	p := Plan{Replicas: size, RestoreReplicas: restored}
	collisions, err := w.findCurrent()
	if err != nil {
		return Plan{}, err
	}
	w.beginRecords()
	w.follow()
	w.limitGrowth()
	if err := w.annotate(); err != nil {
		return Plan{}, err
	}
	if w.current != nil && w.current.original != nil {
		p.Restore = &TemplateChange{Set: w.current.set, Template: w.current.original}
	}
	p.Warning = w.storedDifferently()
	p.Replacing, p.Limited, p.Rolled = w.replacing(), w.limitHit, w.rolledNodes()
	replacements, later := w.replacementNodes()
	p.Replacements = slices.DeleteFunc(replacements, func(node string) bool { return slices.Contains(p.Rolled, node) })
	p.Leaving = w.leavingNodes()
	p.Revision = w.revision()
	p.Status, p.RequeueAfter = w.status(collisions)
	p.RequeueAfter = Soonest(p.RequeueAfter, later)
	var machines []*v1alpha1.Machine
	for _, s := range w.sets {
		machines = append(machines, s.machines...)
	}
	kept, next := PruneRemovals(w.listed, machines, w.now)
	p.Removals, p.WriteRemovals = kept, !SameRemovals(kept, s.Deployment.Spec.Removals)
	if s.Deployment.Spec.PlaceholderSeries == nil {
		p.PlaceholderSeries = s.Deployment.Status.LastPlaceholderSeries
	}
	p.RequeueAfter = Soonest(p.RequeueAfter, next)
	if len(w.lost) > 0 {
		p.RequeueAfter = Soonest(p.RequeueAfter, lostRetry)
	}
	w.changes(&p)
	p.Delete = w.surplusHistory(p.Status)
	p.Steps = w.steps
	return p, nil
}

// follow decides the sizes of all sets, by the rollout strategy of the deployment.
func (w *work) follow() {
	switch {
	case len(w.sets) == 0: // the deployment may not create a set
	case w.current == nil, w.d.Spec.Paused && !w.current.isNew:
		w.scalePaused()
	case strategyOf(w.d) == v1alpha1.OnDelete:
		w.followDeletions()
	case strategyOf(w.d) == v1alpha1.Recreate:
		w.recreate()
	default:
		w.roll()
	}
}

// decideSize returns the size of the deployment. When a client's write has removed spec.replicas, that is the last size that drover
// remembers, within the bounds. When drover remembers none, it is the last recorded size, minus unseen (the number of removals that were
// not yet passed on to a set), because a removal lowers the size before the size is recorded. restored is then true: the size has to be
// written back. A new object gets its minimum when it has bounds, else 1.
func (w *work) decideSize(s Snapshot, unseen int32) (size int32, restored bool) {
	if w.d.Spec.Replicas != nil {
		return *w.d.Spec.Replicas, false
	}
	bounds, last := s.Bounds, w.lastSize()
	if s.Seen != nil && CheckSize(s.Seen) == nil {
		last, unseen = s.Seen, 0
	}
	switch {
	case last != nil:
		size = bounds.Clamp(max(0, min(max(0, *last), v1alpha1.MaxReplicas)-unseen))
		w.note(fmt.Sprintf("spec.replicas is not set: restoring the last size, %d", size))
	case bounds.Listed, bounds.Empty:
		size = bounds.Min
		w.note(fmt.Sprintf("spec.replicas is not set: starting with the minimum, %d", size))
	default:
		size = 1
		w.note("spec.replicas is not set: starting with 1")
	}
	return size, true
}

// lastSize returns the last recorded size of the deployment. That is the size in the status, unless the annotation of an active set has
// another desired size. Then the annotation is newer: it was written together with removals, and the process ended before it wrote the
// status.
func (w *work) lastSize() *int32 {
	last := w.d.Status.LastReplicas
	for _, s := range w.sets {
		told, ok := number(s.set, v1alpha1.AnnotationDesiredReplicas)
		if ok && s.before > 0 && (w.d.Status.LastReplicas == nil || told != *w.d.Status.LastReplicas) {
			last = &told
		}
	}
	return last
}

// changes adds to the plan one write for each set whose planned state differs from its stored state.
func (w *work) changes(p *Plan) {
	for _, s := range w.sets {
		if s.isNew {
			s.set.Spec.Replicas = &s.size
			maps.Copy(s.set.Annotations, s.annotations)
			p.Create, p.Instead = s.set, w.changed
			continue
		}
		minReady := s.set.Spec.MinReadySeconds
		if s == w.current || s.size > 0 {
			minReady = minReadySeconds(w.d)
		}
		maps.DeleteFunc(s.annotations, func(key, value string) bool { return s.set.Annotations[key] == value })
		removals, same := s.remainingRemovals(p.Removals)
		stored := s.set.Spec.Replicas != nil && *s.set.Spec.Replicas == s.size
		if stored && same && !s.recordChanged && minReady == s.set.Spec.MinReadySeconds && len(s.annotations) == 0 {
			continue
		}
		p.Changes = append(p.Changes, SetChange{
			Set: s.set, Replicas: s.size, Removals: removals, RolloutRemovals: s.rolloutRemovals,
			MinReadySeconds: minReady, Annotations: s.annotations, Found: s.found,
		})
	}
}
