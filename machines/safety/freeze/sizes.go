package freeze

import (
	"math"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// followWithin is how long a group may still have the Machines of its former size after its size was lowered.
const followWithin = time.Minute

// sizes remembers the former, larger bounds of groups whose bound (see Group.bound) was lowered recently. The zero value is ready
// to use.
type sizes struct {
	mu     sync.Mutex
	former map[key]former
}

// former is a former bound of a group, and the time until which it is remembered.
type former struct {
	bound int
	until time.Time
}

// note records the former bound of a group whose bound has just been lowered. If an earlier bound is still remembered, note
// keeps the larger of the two and remembers it for another minute.
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

// largest returns the largest bound that a group had within the last minute; 0 when its bound was not lowered.
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

// unknown is the former bound of a group whose size may have been lowered before this process started, so that the former size is
// not known.
const unknown = math.MaxInt32

// first returns the former bound of an object at the object's first watch event. It returns unknown if the object's
// controller has not followed the present spec yet, and otherwise 0.
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

// lowered returns the bound that an object had before its bound was lowered; 0 when it was not lowered.
func lowered(before, after client.Object) int {
	b, known := boundOf(before)
	a, still := boundOf(after)
	if known && still && a < b {
		return b
	}
	return 0
}

// boundOf returns the bound (see Group.bound) of the group that an object owns. It returns false if the bound is not known, or if
// the object owns no group, like a set of a deployment.
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
