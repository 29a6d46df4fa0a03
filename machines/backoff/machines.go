package backoff

import (
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Machines holds the failures that concern one Machine alone, and delays the Machine's next attempt to get a server, or to
// have its resources deleted. The delay depends on the class of the failure, and doubles with each further failure until an
// attempt succeeds. A failed creation does not delay the deletion of the Machine. After a restart the delay is computed from
// the time of the last failure in the Machine's status. Machines is safe for concurrent use.
type Machines struct {
	mu      sync.Mutex
	entries map[types.UID]entry
}

type entry struct {
	// deleting reports whether the failure occurred while the Machine was being deleted.
	deleting bool
	// reading reports whether the Machine's spec, credentials or cloud could not be read. Such a failure ends when they can be
	// read, so it delays only the next reading.
	reading bool
	class   fault.Class
	wait    time.Duration
	until   time.Time
	last    *fault.Error
	// annotations are drover's annotations of the Machine at the last failure; nil unless that was of class Invalid.
	annotations map[string]string
}

// isAnswered reports whether the Machine's annotations have changed since a failure of class Invalid. Such a failure names the annotation
// that overrides it, so the Machine need not wait.
func (e *entry) isAnswered(m *v1alpha1.Machine) bool {
	return e.annotations != nil && !maps.Equal(e.annotations, ours(m))
}

// ours returns the annotations of the Machine that drover defines; never nil.
func ours(m *v1alpha1.Machine) map[string]string {
	out := map[string]string{}
	for key, value := range m.Annotations {
		if strings.HasPrefix(key, v1alpha1.Prefix) {
			out[key] = value
		}
	}
	return out
}

// NewMachines returns an empty store.
func NewMachines() *Machines { return &Machines{entries: map[types.UID]entry{}} }

// Failed records a failed attempt and returns how long to wait. Another failure of the same class during a wait does not extend
// the wait.
func (s *Machines) Failed(m *v1alpha1.Machine, err *fault.Error, now time.Time) time.Duration {
	return s.failed(m, err, false, now)
}

// Unreadable records that the facts for an attempt could not be read, and returns how long to wait before they are read again.
// It does not delay the attempt itself.
func (s *Machines) Unreadable(m *v1alpha1.Machine, err *fault.Error, now time.Time) time.Duration {
	return s.failed(m, err, true, now)
}

func (s *Machines) failed(m *v1alpha1.Machine, err *fault.Error, reading bool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	policy := fault.PolicyOf(err.Class)
	e, known := s.entryOf(m, now)
	if known && e.class == err.Class && e.reading == reading {
		if e.until.After(now) && !e.isAnswered(m) {
			return e.until.Sub(now)
		}
		e.wait = min(2*e.wait, policy.MaxRetry)
	} else {
		e = entry{deleting: m.DeletionTimestamp != nil, class: err.Class, wait: policy.Retry}
	}
	e.until, e.last, e.reading = now.Add(max(e.wait, err.RetryAfter)), err, reading
	if err.Class == fault.Invalid {
		e.annotations = ours(m)
	}
	s.entries[m.UID] = e
	return e.until.Sub(now)
}

// Until returns when the Machine may try again. A time in the past means that it may try immediately. A change of drover's annotations on
// the Machine ends the wait after a failure of class Invalid.
func (s *Machines) Until(m *v1alpha1.Machine, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.entryOf(m, now)
	if e.reading || e.isAnswered(m) {
		return time.Time{}
	}
	return e.until
}

// Last returns the failure of the Machine's last attempt; nil when that attempt did not fail.
func (s *Machines) Last(m *v1alpha1.Machine, now time.Time) *fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.entryOf(m, now)
	return e.last
}

// Forget ends the Machine's wait, because its server has become ACTIVE or the Machine was deleted.
func (s *Machines) Forget(machine types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, machine)
}

// entryOf returns the last failure of what the Machine does now: of its creation, or of its deletion. After a restart it is
// read from the Machine's status. Its wait never exceeds the class's first wait from now, because the clock of an earlier leader
// may have been ahead. The caller must hold mu.
func (s *Machines) entryOf(m *v1alpha1.Machine, now time.Time) (entry, bool) {
	deleting := m.DeletionTimestamp != nil
	if e, ok := s.entries[m.UID]; ok && e.deleting == deleting {
		return e, true
	}
	last := m.Status.LastOperation
	if m.Status.ErrorReason == nil || last == nil || last.LastUpdated == nil || ptr.Deref(last.State, "") != v1alpha1.OperationFailed {
		return entry{}, false
	}
	code := fault.Code(*m.Status.ErrorReason)
	policy := fault.PolicyOf(fault.ClassOf(code))
	ofDeletion := ptr.Deref(last.Type, "") == v1alpha1.OperationDelete
	if ofDeletion != deleting || policy.OpensBackoff && !deleting {
		return entry{}, false
	}
	return entry{
		deleting: deleting, class: fault.ClassOf(code), wait: policy.Retry,
		until: earlier(last.LastUpdated.Time, now).Add(policy.Retry),
		last:  &fault.Error{Class: fault.ClassOf(code), Code: code, Message: ptr.Deref(m.Status.ErrorMessage, "")},
	}, true
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
