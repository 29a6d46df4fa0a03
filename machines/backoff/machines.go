package backoff

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Machines holds the failures that concern one Machine alone, and delays the Machine's next attempt to get a server. The
// delay depends on the class of the failure, and doubles with each further failure until a server of the Machine becomes
// ACTIVE. After a restart the delay is computed from the time of the last failure in the Machine's status. Machines is safe
// for concurrent use.
type Machines struct {
	mu      sync.Mutex
	entries map[types.UID]entry
}

type entry struct {
	class fault.Class
	wait  time.Duration
	until time.Time
	// last is the last failure; nil after a restart.
	last *fault.Error
}

// NewMachines returns an empty store.
func NewMachines() *Machines { return &Machines{entries: map[types.UID]entry{}} }

// Failed records a failure and returns how long to wait. Another failure of the same class during a wait does not extend the
// wait.
func (s *Machines) Failed(machine types.UID, err *fault.Error, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	policy := fault.PolicyOf(err.Class)
	e, known := s.entries[machine]
	if known && e.class == err.Class {
		if e.until.After(now) {
			return e.until.Sub(now)
		}
		e.wait = min(2*e.wait, policy.MaxRetry)
	} else {
		e = entry{class: err.Class, wait: policy.Retry}
	}
	e.until, e.last = now.Add(max(e.wait, err.RetryAfter)), err
	s.entries[machine] = e
	return e.until.Sub(now)
}

// Until returns when the Machine may try again. A time in the past means that it may try immediately.
func (s *Machines) Until(m *v1alpha1.Machine, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[m.UID]; ok {
		return e.until
	}
	last := m.Status.LastOperation
	if m.Status.ErrorReason == nil || last == nil || last.LastUpdated == nil || last.State == nil || *last.State != v1alpha1.OperationFailed {
		return time.Time{}
	}
	class := fault.ClassOf(fault.Code(*m.Status.ErrorReason))
	if fault.PolicyOf(class).OpensBackoff {
		return time.Time{}
	}
	e := entry{class: class, wait: fault.PolicyOf(class).Retry}
	e.until = last.LastUpdated.Add(e.wait)
	if e.until.After(now) {
		s.entries[m.UID] = e
	}
	return e.until
}

// Unwritten returns the failure that caused the wait of the Machine, if the Machine's status does not show that failure;
// otherwise nil. The status lacks the failure when the write of the status ended in a Conflict. Without Unwritten, drover would
// not write the failure again before the wait ends.
func (s *Machines) Unwritten(m *v1alpha1.Machine) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Status.ErrorReason != nil {
		return nil
	}
	return s.entries[m.UID].last
}

// Forget ends the Machine's wait, because its server has become ACTIVE or the Machine was deleted.
func (s *Machines) Forget(machine types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, machine)
}
