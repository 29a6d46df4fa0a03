package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// work holds the state of one plan while it is computed.
type work struct {
	d        *v1alpha1.MachineDeployment
	now      time.Time
	replicas int32
	// listed holds spec.removals, together with the entries that a client's write has removed from it.
	listed []v1alpha1.Removal
	limits limits
	// sets holds all sets that are not being deleted, the oldest first. current is the set with the deployment's template; nil while
	// the deployment has no such set and does not create one.
	sets    []*setWork
	current *setWork
	// lost holds the sets that were made for the deployment and do not belong to it. changed holds the sets that were made for its current
	// template and have another one; mayCreateSet sets it.
	lost    []LostSet
	changed []*v1alpha1.MachineSet
	// leaving reports whether a set that is being deleted has a Machine with a server. removing counts those of them that a rollout removed
	// earlier.
	leaving  bool
	removing int32
	// limit is how many Machines may be in replacement; nil means no limit. limitHit is true when the limit stopped some replacements.
	limit    *int32
	limitHit bool
	steps    []Step
}

// setWork is a set with its next size while the plan is computed.
type setWork struct {
	set *v1alpha1.MachineSet
	// isNew is true when the set does not exist yet.
	isNew    bool
	machines []*v1alpha1.Machine
	living   []MachineFacts
	// leavingNodes names the Nodes of the Machines that are not living.
	leavingNodes []string
	// removing counts the Machines that a rollout removed and that still have a server, or may get one (MC-17).
	removing int32
	// before is the size that the deployment decided last. size is the planned size. found is the size that another client has written and that
	// the plan sets back; nil when there is none.
	before, size int32
	found        *int32
	// original is the template to set back in the set; nil when no other client has changed the template.
	original *v1alpha1.MachineTemplateSpec
	removals []v1alpha1.Removal
	// rolloutRemovals holds spec.rolloutRemovals without Machines that are gone. recordChanged is true when the plan added an entry.
	rolloutRemovals []v1alpha1.Removal
	recordChanged   bool
	annotations     map[string]string
	// order holds the living Machines in the order in which the set deletes them. availableFrom[i] counts the available Machines in
	// order[i:].
	order         []MachineFacts
	availableFrom []int32
}

func newWork(s Snapshot) *work {
	w := &work{d: s.Deployment, now: s.Now, limit: s.ReplacementLimit, lost: s.Lost, listed: listedRemovals(s)}
	listed := uidsOf(w.listed)
	for _, state := range s.Sets {
		if !state.Set.DeletionTimestamp.IsZero() {
			w.leaving = w.leaving || slices.ContainsFunc(state.Machines, hasServer)
			w.removing += newSetWork(state, nil, 0, s.Now).removing
			continue
		}
		w.sets = append(w.sets, newSetWork(state, listed, minReadySeconds(s.Deployment), s.Now))
	}
	slices.SortFunc(w.sets, func(a, b *setWork) int {
		return cmp.Or(a.set.CreationTimestamp.Compare(b.set.CreationTimestamp.Time), cmp.Compare(a.set.Name, b.set.Name))
	})
	return w
}

func newSetWork(state SetState, listed map[types.UID]bool, minReady int32, now time.Time) *setWork {
	s := &setWork{set: state.Set, machines: state.Machines, removals: state.Set.Spec.Removals, annotations: map[string]string{}}
	s.rolloutRemovals = PresentRemovals(v1alpha1.MergeRemovals(state.Set.Spec.RolloutRemovals, state.Named), state.Machines)
	s.recordChanged = len(s.rolloutRemovals) > len(PresentRemovals(state.Set.Spec.RolloutRemovals, state.Machines))
	own, byRollout := uidsOf(state.Set.Spec.Removals), uidsOf(s.rolloutRemovals)
	for _, m := range state.Machines {
		f := Facts(m, minReady, now)
		f.Listed = listed[m.UID] || own[m.UID] || byRollout[m.UID]
		if ref := m.Status.NodeRef; ref != nil && !f.Living() {
			s.leavingNodes = append(s.leavingNodes, ref.Name)
		}
		switch {
		case f.Living():
			s.living = append(s.living, f)
		case byRollout[m.UID] && (f.HasServer() || m.DeletionTimestamp.IsZero()): // until its deletion begins, the Machine may still get a server
			s.removing++
		}
	}
	s.before = decidedSize(state.Set, int32(len(s.living)))
	s.size = s.before
	s.sortLiving()
	return s
}

// sortLiving sorts the living Machines into the order in which the set will delete them. The set uses the same function on the same facts,
// so the planner predicts which Machines a smaller size removes.
func (s *setWork) sortLiving() {
	s.order = inDeletionOrder(s.living, s.set.Spec.DeletePolicy, s.removals)
	s.availableFrom = make([]int32, len(s.order)+1)
	for i := len(s.order) - 1; i >= 0; i-- {
		s.availableFrom[i] = s.availableFrom[i+1]
		if s.order[i].Available {
			s.availableFrom[i]++
		}
	}
}

// availableAt counts the Machines that are available now and remain when the set has the given size.
func (s *setWork) availableAt(size int32) int32 {
	return s.availableFrom[max(0, int32(len(s.order))-size)]
}

func (s *setWork) available() int32 { return s.availableAt(s.size) }

// staying returns the living Machines that the set keeps at its planned size, in the order in which it would delete them.
func (s *setWork) staying() []MachineFacts {
	return s.order[max(0, int32(len(s.order))-s.size):]
}

// occupied counts the set's Machines towards replicas plus surge: the living Machines or the planned size, whichever is larger, and the
// Machines that a rollout removed and that still have a server. Machines that leave for another reason do not count.
func (s *setWork) occupied() int32 {
	return max(s.size, int32(len(s.living))) + s.removing
}

// empty reports whether the set has no Machines and wants none. The set's status must report this for the set's current size, because the
// set may have created Machines that the informer cache does not show yet.
func (s *setWork) empty() bool {
	st := s.set.Status
	observed := st.ObservedGeneration >= s.set.Generation && st.Replicas == 0
	return observed && s.before == 0 && s.size == 0 && len(s.machines) == 0
}

// resize records a set's new size and the reason for it.
func (w *work) resize(s *setWork, size int32, reason string) {
	if size == s.size {
		return
	}
	w.steps = append(w.steps, Step{Set: s.set.Name, From: s.size, To: size, Reason: reason})
	s.size = size
}

func (w *work) note(reason string) { w.steps = append(w.steps, Step{Reason: reason}) }

// old returns all sets except the current one, the oldest first.
func (w *work) old() []*setWork {
	var old []*setWork
	for _, s := range w.sets {
		if s != w.current {
			old = append(old, s)
		}
	}
	return old
}

// rolling reports whether Machines of an old template are left, or Machines that a rollout removed.
func (w *work) rolling() bool {
	for _, s := range w.old() {
		if s.size > 0 || len(s.living) > 0 {
			return true
		}
	}
	return w.removed() > 0
}

// sum adds up a number of all sets.
func (w *work) sum(number func(*setWork) int32) (total int32) {
	for _, s := range w.sets {
		total += number(s)
	}
	return total
}

// removed counts the Machines that a rollout removed and that still have a server, or may get one.
func (w *work) removed() int32 {
	return w.removing + w.sum(func(s *setWork) int32 { return s.removing })
}

// occupied counts the Machines of all sets towards replicas plus surge.
func (w *work) occupied() int32 { return w.removing + w.sum((*setWork).occupied) }

func (w *work) sizes() int32 { return w.sum(func(s *setWork) int32 { return s.size }) }

func (w *work) available() int32 { return w.sum((*setWork).available) }

// active returns the sets whose size is not 0, the oldest first.
func (w *work) active() (active []*setWork) {
	for _, s := range w.sets {
		if s.size > 0 {
			active = append(active, s)
		}
	}
	return active
}

// told reports whether the desired size of the deployment that is written in an annotation of an active set matches.
func (w *work) told(matches func(size int32) bool) bool {
	return slices.ContainsFunc(w.active(), func(s *setWork) bool {
		size, ok := number(s.set, v1alpha1.AnnotationDesiredReplicas)
		return ok && matches(size)
	})
}

// limits holds surge and unavailable of a rolling update, in Machines.
type limits struct {
	surge, unavailable int32
}

func strategyOf(d *v1alpha1.MachineDeployment) v1alpha1.StrategyType {
	if d.Spec.Strategy == nil || d.Spec.Strategy.Type == "" {
		return v1alpha1.RollingUpdate
	}
	return d.Spec.Strategy.Type
}

func minReadySeconds(d *v1alpha1.MachineDeployment) int32 {
	if d.Spec.MinReadySeconds == nil {
		return 0
	}
	return *d.Spec.MinReadySeconds
}

// floor returns how many Machines must stay available.
func (w *work) floor() int32 { return w.replicas - w.limits.unavailable }

// allowed returns the largest sum of the sets' sizes that a rollout may reach.
func (w *work) allowed() int32 {
	if w.replicas == 0 {
		return 0
	}
	return w.replicas + w.limits.surge
}

// room returns how many Machines may be added within replicas plus surge; it may be negative.
func (w *work) room() int32 { return w.replicas + w.limits.surge - w.occupied() }

// roomFor returns by how much a set's size may rise within replicas plus surge. Living Machines beyond the set's size already count towards
// replicas plus surge, so the size may always rise up to the number of living Machines.
func (w *work) roomFor(s *setWork) int32 {
	return w.room() + max(0, int32(len(s.living))-s.size)
}

// shrinking reports whether a set other than except still has more living Machines than its size, or whether Machines that a rollout
// removed still have servers. A set deletes the Machines beyond its size in its next reconcile.
func (w *work) shrinking(except *setWork) bool {
	for _, s := range w.sets {
		if s != except && int32(len(s.living)) > s.size {
			return true
		}
	}
	return w.removed() > 0
}

// raise sets the size of a set when no rollout is under way. While other sets are shrinking, a larger size must fit within replicas plus
// surge. Otherwise, and for a smaller size, there is no limit.
func (w *work) raise(s *setWork, size int32, reason string) {
	if size > s.size && w.shrinking(s) {
		size = min(size, s.size+max(0, w.roomFor(s)))
	}
	w.resize(s, size, reason)
}

// number parses a whole number from a set's annotation.
func number(set *v1alpha1.MachineSet, key string) (int32, bool) {
	n, err := strconv.ParseInt(set.Annotations[key], 10, 32)
	return int32(n), err == nil
}

// Soonest returns the shorter of two waits. A wait of 0 or less means that there is none. Soonest returns 0 when neither wait exists.
func Soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}
