package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// backoff keeps a Machine from trying again too soon after a failure that concerns nobody else: the waits of its class,
// doubling, until a server of it has become ACTIVE. After a restart the Machine's own status says when the last failure
// was. (Shortages concern the whole group, and are in the ledger.)
type backoff struct {
	mu      sync.Mutex
	entries map[types.UID]backoffEntry
}

type backoffEntry struct {
	class fault.Class
	wait  time.Duration
	until time.Time
	// last is the failure itself; nil after a restart.
	last *fault.Error
}

func newBackoff() *backoff { return &backoff{entries: map[types.UID]backoffEntry{}} }

// failed notes a failure and says how long to wait. While an earlier wait of the same class runs, it is not prolonged.
func (b *backoff) failed(uid types.UID, err *fault.Error, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	policy := fault.PolicyOf(err.Class)
	e, known := b.entries[uid]
	if known && e.class == err.Class {
		if e.until.After(now) {
			return e.until.Sub(now)
		}
		e.wait = min(2*e.wait, policy.MaxRetry)
	} else {
		e = backoffEntry{class: err.Class, wait: policy.Retry}
	}
	e.until, e.last = now.Add(max(e.wait, err.RetryAfter)), err
	b.entries[uid] = e
	return e.until.Sub(now)
}

// until says when the Machine may be tried again; a time that is past when it may be at once.
func (b *backoff) until(m *v1alpha1.Machine, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.entries[m.UID]; ok {
		return e.until
	}
	last := m.Status.LastOperation
	if m.Status.ErrorReason == nil || last == nil || last.LastUpdated == nil || last.State == nil || *last.State != stateFailed {
		return time.Time{}
	}
	class := fault.ClassOf(fault.Code(*m.Status.ErrorReason))
	if fault.PolicyOf(class).OpensBackoff {
		return time.Time{}
	}
	e := backoffEntry{class: class, wait: fault.PolicyOf(class).Retry}
	e.until = last.LastUpdated.Add(e.wait)
	if e.until.After(now) {
		b.entries[m.UID] = e
	}
	return e.until
}

// unwritten gives the failure that a Machine backs off from and does not show: the write that should have shown it met a
// Conflict, and no other attempt is made before the wait ends. nil when there is none.
func (b *backoff) unwritten(m *v1alpha1.Machine) *fault.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Status.ErrorReason != nil {
		return nil
	}
	return b.entries[m.UID].last
}

// forget ends the waiting: success, or the end of the Machine.
func (b *backoff) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, uid)
}
