package freeze

import (
	"math"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// followWithin is how long a group may still have the Machines of its former size after the size was lowered.
const followWithin = time.Minute

// sizes remembers the larger bounds that groups had recently. The zero value is ready for use.
type sizes struct {
	mu     sync.Mutex
	former map[key]former
}

// former is a former bound of a group, and until when it counts.
type former struct {
	bound int
	until time.Time
}

// note records a former bound of a group that has just been lowered. The largest counts for as long as any.
func (s *sizes) note(k key, bound int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.former == nil {
		s.former = map[key]former{}
	}
	if old, ok := s.former[k]; ok && now.Before(old.until) {
		bound = max(bound, old.bound)
	}
	s.former[k] = former{bound, now.Add(followWithin)}
}

// largest returns the largest bound of a group within the last minute; 0 when it was not lowered.
func (s *sizes) largest(k key, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.former[k]
	switch {
	case !ok:
		return 0
	case !now.Before(old.until):
		delete(s.former, k)
		return 0
	}
	return old.bound
}

// forget drops the former bound of a group.
func (s *sizes) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.former, k)
}

// unknown is the former bound of a group whose size was lowered by an unknown number before this process started.
const unknown = math.MaxInt32

// first returns the former bound of an object in its first watch event: unknown when its controller has not followed its
// present spec yet, else 0.
func first(o client.Object) int {
	var seen int64
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		seen = o.Status.ObservedGeneration
	case *v1alpha1.MachineSet:
		seen = o.Status.ObservedGeneration
	}
	if seen == 0 || seen == o.GetGeneration() {
		return 0
	}
	return unknown
}

// lowered returns the bound that an object had before it was lowered; 0 when it was not lowered.
func lowered(before, after client.Object) int {
	b, known := boundOf(before)
	a, still := boundOf(after)
	if known && still && a < b {
		return b
	}
	return 0
}

// boundOf returns the bound of the group that an object owns; a set of a deployment owns none.
func boundOf(o client.Object) (int, bool) {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		return rollout.MostLiving(o)
	case *v1alpha1.MachineSet:
		if !keyOfSet(o).deployment {
			return boundOfSet(o)
		}
	}
	return 0, false
}
