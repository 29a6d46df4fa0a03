package backoff

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Machine holds the last failure that concerns one Machine alone, and delays the Machine's next attempt to get a server, or to
// have its resources deleted. The delay depends on the class of the failure, and doubles with each further failure until an
// attempt succeeds. A failed creation does not delay the deletion of the Machine. After a restart the delay is computed from
// the time of the last failure in the Machine's status. The zero value holds no failure; setting it ends the wait. Machine is not safe for
// concurrent use.
type Machine struct {
	// deleting reports whether the failure occurred while the Machine was being deleted.
	deleting bool
	// reading reports whether the Machine's spec, credentials or cloud could not be read. Such a failure ends when they can be
	// read, so it delays only the next reading.
	reading bool
	wait    time.Duration
	until   time.Time
	// last is the failure; nil when there was none.
	last *fault.Error
	// annotations are drover's annotations of the Machine at the last failure; nil unless that was of class Invalid.
	annotations map[string]string
}

// isAnswered reports whether the Machine's annotations have changed since a failure of class Invalid. Such a failure names the annotation
// that overrides it, so the Machine need not wait.
func (b *Machine) isAnswered(m *v1alpha1.Machine) bool {
	return b.annotations != nil && !maps.Equal(b.annotations, ours(m))
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

// Failed records a failed attempt and returns how long to wait. Another failure of the same class during a wait does not extend
// the wait.
func (b *Machine) Failed(m *v1alpha1.Machine, err *fault.Error, now time.Time) time.Duration {
	return b.failed(m, err, false, now)
}

// Unreadable records that the facts for an attempt could not be read, and returns how long to wait before they are read again.
// It does not delay the attempt itself.
func (b *Machine) Unreadable(m *v1alpha1.Machine, err *fault.Error, now time.Time) time.Duration {
	return b.failed(m, err, true, now)
}

func (b *Machine) failed(m *v1alpha1.Machine, err *fault.Error, reading bool, now time.Time) time.Duration {
	policy := fault.PolicyOf(err.Class)
	next := b.of(m, now)
	if next.last != nil && next.last.Class == err.Class && next.reading == reading {
		if next.until.After(now) && !next.isAnswered(m) {
			return next.until.Sub(now)
		}
		next.wait = min(2*next.wait, policy.MaxRetry)
	} else {
		next = Machine{deleting: m.DeletionTimestamp != nil, wait: policy.Retry}
	}
	next.until, next.last, next.reading = now.Add(max(next.wait, err.RetryAfter)), err, reading
	if err.Class == fault.Invalid {
		next.annotations = ours(m)
	}
	*b = next
	return next.until.Sub(now)
}

// Until returns when the Machine may try again. A time in the past means that it may try immediately. A change of drover's annotations on
// the Machine ends the wait after a failure of class Invalid.
func (b *Machine) Until(m *v1alpha1.Machine, now time.Time) time.Time {
	e := b.of(m, now)
	if e.reading || e.isAnswered(m) {
		return time.Time{}
	}
	return e.until
}

// Last returns the failure of the Machine's last attempt; nil when that attempt did not fail.
func (b *Machine) Last(m *v1alpha1.Machine, now time.Time) *fault.Error { return b.of(m, now).last }

// of returns the last failure of what the Machine does now: of its creation, or of its deletion. After a restart it is
// read from the Machine's status. Its wait never exceeds the class's first wait from now, because the clock of an earlier leader
// may have been ahead.
func (b *Machine) of(m *v1alpha1.Machine, now time.Time) Machine {
	deleting := m.DeletionTimestamp != nil
	if b.last != nil && b.deleting == deleting {
		return *b
	}
	last := m.Status.LastOperation
	if m.Status.ErrorReason == nil || last == nil || last.LastUpdated == nil || ptr.Deref(last.State, "") != v1alpha1.OperationFailed {
		return Machine{}
	}
	code := fault.Code(*m.Status.ErrorReason)
	policy := fault.PolicyOf(fault.ClassOf(code))
	ofDeletion := ptr.Deref(last.Type, "") == v1alpha1.OperationDelete
	if ofDeletion != deleting || policy.OpensBackoff && !deleting {
		return Machine{}
	}
	return Machine{
		deleting: deleting, wait: policy.Retry,
		until: slices.MinFunc([]time.Time{last.LastUpdated.Time, now}, time.Time.Compare).Add(policy.Retry),
		last:  &fault.Error{Class: fault.ClassOf(code), Code: code, Message: ptr.Deref(m.Status.ErrorMessage, "")},
	}
}
