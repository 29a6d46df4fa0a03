package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// work is a plan in the making.
type work struct {
	d        *v1alpha1.MachineDeployment
	now      time.Time
	replicas int32
	limits   limits
	// sets are all sets that are not deleting, oldest first; current, one of them, bears the template, or is nil while
	// a paused deployment has none.
	sets    []*setWork
	current *setWork
	// leaving counts Machines of sets that are deleting and still have a server.
	leaving int32
	// brake is how many Machines may be in replacement at once, or nil; held says that it held some back.
	brake *int32
	held  bool
	steps []Step
}

// setWork is a set whose next size is being decided.
type setWork struct {
	set *v1alpha1.MachineSet
	// isNew: the set does not exist yet.
	isNew    bool
	machines []*v1alpha1.Machine
	living   []MachineFacts
	// terminating counts Machines that are not living and still have a server, or may get one (MC-17).
	terminating int32
	// before is the size that the set has, size the one that it gets.
	before, size int32
	removals     []v1alpha1.Removal
	annotations  map[string]string
	// order holds the living Machines in the order in which the set lets them go; availableFrom[i] counts the available
	// ones among order[i:].
	order         []MachineFacts
	availableFrom []int32
}

func newWork(s Snapshot) *work {
	w := &work{d: s.Deployment, now: s.Now, brake: s.Brake}
	listed := uidsOf(s.Deployment.Spec.Removals)
	for _, state := range s.Sets {
		if !state.Set.DeletionTimestamp.IsZero() {
			w.leaving += serversIn(state.Machines)
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
	own := uidsOf(state.Set.Spec.Removals)
	for _, m := range state.Machines {
		f := Facts(m, minReady, now)
		f.Listed = listed[m.UID] || own[m.UID]
		switch {
		case f.Living():
			s.living = append(s.living, f)
		case f.HasServer() || f.Machine.DeletionTimestamp.IsZero(): // it may get a server until it is deleted
			s.terminating++
		}
	}
	s.before = int32(len(s.living))
	if n := state.Set.Spec.Replicas; n != nil && *n >= 0 {
		// A negative size, stored before there were rules, means nothing; one that is too large is corrected.
		s.before = min(*n, v1alpha1.MaxReplicas)
	}
	s.size = s.before
	s.sortLiving()
	return s
}

// sortLiving puts the living Machines into the order in which the set will delete them. The set uses the same function
// on the same facts, so the planner knows what a smaller size costs.
func (s *setWork) sortLiving() {
	s.order = make([]MachineFacts, 0, len(s.living))
	for _, r := range rank(s.living, s.set.Spec.DeletePolicy, s.removals) {
		s.order = append(s.order, s.living[r.index])
	}
	s.availableFrom = make([]int32, len(s.order)+1)
	for i := len(s.order) - 1; i >= 0; i-- {
		s.availableFrom[i] = s.availableFrom[i+1]
		if s.order[i].Available {
			s.availableFrom[i]++
		}
	}
}

// availableAt counts the Machines that are available now and stay so at a size.
func (s *setWork) availableAt(size int32) int32 {
	return s.availableFrom[max(0, int32(len(s.order))-size)]
}

func (s *setWork) available() int32 { return s.availableAt(s.size) }

// occupied counts what the set has or is about to have, whichever is more, and what is still leaving.
func (s *setWork) occupied() int32 {
	return max(s.size, int32(len(s.living))) + s.terminating
}

// resize records a new size and why.
func (w *work) resize(s *setWork, size int32, reason string) {
	if size == s.size {
		return
	}
	w.steps = append(w.steps, Step{Set: s.set.Name, From: s.size, To: size, Reason: reason})
	s.size = size
}

func (w *work) note(reason string) { w.steps = append(w.steps, Step{Reason: reason}) }

// old are all sets but the current one, oldest first.
func (w *work) old() []*setWork {
	var old []*setWork
	for _, s := range w.sets {
		if s != w.current {
			old = append(old, s)
		}
	}
	return old
}

// rolling says that something of an old template is still there.
func (w *work) rolling() bool {
	for _, s := range w.old() {
		if s.occupied() > 0 {
			return true
		}
	}
	return false
}

func (w *work) occupied() int32 {
	total := w.leaving
	for _, s := range w.sets {
		total += s.occupied()
	}
	return total
}

func (w *work) sizes() int32 {
	var total int32
	for _, s := range w.sets {
		total += s.size
	}
	return total
}

func (w *work) available() int32 {
	var total int32
	for _, s := range w.sets {
		total += s.available()
	}
	return total
}

func serversIn(machines []*v1alpha1.Machine) int32 {
	var n int32
	for _, m := range machines {
		if (MachineFacts{Machine: m}).HasServer() {
			n++
		}
	}
	return n
}
