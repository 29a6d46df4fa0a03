package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// concludeOperation says what was done last. Its time is when that began: it moves when kind, state or text change,
// never because somebody looked again.
func concludeOperation(p *pass, now metav1.Time) {
	kind, state, text := operation(p)
	old := p.m.Status.LastOperation
	same := old != nil && ptr.Deref(old.Type, "") == kind && ptr.Deref(old.State, "") == state
	if same && ptr.Deref(old.Description, "") == text {
		return
	}
	p.m.Status.LastOperation = &v1alpha1.LastOperation{Type: ptr.To(kind), State: ptr.To(state), Description: ptr.To(text), LastUpdated: &now}
}

func operation(p *pass) (kind, state, text string) {
	f := &p.facts
	switch {
	case f.deleting && p.last.step == drainNode:
		kind = "Drain"
	case f.deleting:
		kind = "Delete"
	case f.joined:
		kind = "Join"
	default:
		kind = "Create"
	}
	if f.deleting {
		text = p.last.reason
	}
	switch {
	case p.failure != nil && p.failure.Class != fault.RateLimited:
		return kind, stateFailed, ptr.Deref(p.m.Status.ErrorMessage, fault.Line(p.failure.Message))
	case p.failure == nil && p.last.reason == reasonBackOff && p.m.Status.ErrorMessage != nil:
		return kind, stateFailed, *p.m.Status.ErrorMessage
	case f.joined && !f.deleting:
		return kind, stateSuccessful, text
	}
	return kind, stateProcessing, text
}
