package nodegroup

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// messagesPerGroup bounds how many errors of a group bear a message: an answer must stay below 4 MiB, whatever fails
// (CA-C55). The autoscaler itself shows three.
const messagesPerGroup = 1000

// turnover are the ids of instances that a group shows no longer, and of those that it shows from now on.
type turnover struct{ gone, come []string }

// moved notes that one id has taken the place of another; empty for none.
func (t *turnover) moved(from, to string) {
	if from == to {
		return
	}
	if from != "" {
		t.gone = append(t.gone, from)
	}
	if to != "" {
		t.come = append(t.come, to)
	}
}

// list decides what the autoscaler is shown of a group's Machines: hidden ones as Deleting, the others as Running or
// Creating. With the units that have no Machine, those that are not Deleting are as many as the target size says (CA-C38,
// C39).
func (s *Snapshot) list(g, before *group, l lineup) turnover {
	var changed turnover
	g.instances = make([]Instance, 0, len(g.members))
	failures := 0
	for i := range g.members {
		var old Instance
		if l.was[i] != nobody {
			old = before.instances[l.was[i]]
		}
		next := old
		if !g.stays(i, l, before) {
			next = s.instanceOf(g, i)
			changed.moved(old.ID, next.ID)
		} else {
			g.marks[i] |= before.marks[l.was[i]] & (markAwaited | markComing | markPlain)
		}
		if next.Error != nil {
			if failures++; failures > messagesPerGroup {
				next.Error.Message = ""
			}
		}
		g.awaited += g.marks[i].one(markAwaited)
		g.coming += g.marks[i].one(markComing)
		g.instances = append(g.instances, next)
	}
	for _, at := range l.gone {
		changed.moved(before.instances[at].ID, "")
	}
	g.awaited += g.gap
	g.coming += g.gap
	return changed
}

// one is 1 when the mark is there.
func (m mark) one(of mark) int32 {
	if m&of != 0 {
		return 1
	}
	return 0
}

// stays tells whether the instance of a member is what it was.
func (g *group) stays(i int, l lineup, before *group) bool {
	if !l.same(i, g.members[i]) {
		return false
	}
	was := before.marks[l.was[i]]
	if was&markPlain == 0 || (was^g.marks[i])&markHidden != 0 {
		return false
	}
	return was&markAwaited == 0 || len(g.owner.backoffs) == 0
}

// instanceOf is what the autoscaler is shown of the member at a place.
func (s *Snapshot) instanceOf(g *group, at int) Instance {
	m := g.members[at]
	i := Instance{ID: g.instanceID(m), State: Creating}
	plain := markPlain
	if m.starting() {
		// The group's options decide what is shown of it.
		plain = 0
	}
	switch {
	case g.marks[at]&markHidden != 0:
		i.State = Deleting
		g.marks[at] |= plain
		return i
	case g.concealed(m):
	case m.registered():
		i.State = Running
		g.marks[at] |= plain
	case m.node != nil || !m.failing() && len(g.owner.backoffs) == 0:
		g.marks[at] |= markPlain | markAwaited
	default:
		if i.Error = s.failure(g, m); i.Error == nil {
			g.marks[at] |= markAwaited
		}
	}
	if i.Error == nil && !m.usable(s.startup) {
		g.marks[at] |= markComing
	}
	return i
}

// at notes that what is shown changes at that time.
func (g *group) at(when time.Time) {
	if g.recheck.IsZero() || when.Before(g.recheck) {
		g.recheck = when
	}
}

// failure is what the autoscaler is told of a Machine without a node: its own error, else that of the shortage that keeps
// it from asking for a server; nil while it is the one that was acted upon.
func (s *Snapshot) failure(g *group, m *member) *InstanceError {
	if m.node != nil {
		return nil
	}
	if e, when := s.ownFailure(g, m); e != nil {
		return s.unseen(m, e, when)
	}
	if e, when := s.shortage(g, m); e != nil {
		return s.unseen(m, e, when)
	}
	return nil
}

func (s *Snapshot) unseen(m *member, e *InstanceError, when time.Time) *InstanceError {
	if seen, ok := s.seen[m.machine.UID]; ok && !when.After(seen) {
		return nil
	}
	return e
}

// ownFailure is the Machine's own error, and when it last failed; nil while the error may pass by itself (CA-C47).
func (s *Snapshot) ownFailure(g *group, m *member) (*InstanceError, time.Time) {
	if !m.failing() {
		return nil, time.Time{}
	}
	status := m.machine.Status
	code := fault.Code(*status.ErrorReason)
	policy := fault.PolicyOf(fault.ClassOf(code))
	if policy.ShownAfter < 0 {
		return nil, time.Time{}
	}
	if shown := withoutServerSince(m.machine).Add(policy.ShownAfter); s.now.Before(shown) {
		g.at(shown)
		return nil, time.Time{}
	}
	e := &InstanceError{Code: string(code), OutOfResources: policy.OutOfResources}
	if status.ErrorMessage != nil {
		e.Message = fault.Short(*status.ErrorMessage)
	}
	return e, attempt(m.machine)
}

// failing tells whether the Machine has an error of its own.
func (m *member) failing() bool {
	reason := m.machine.Status.ErrorReason
	return reason != nil && *reason != ""
}

// withoutServerSince is since when a Machine has had no working server.
func withoutServerSince(m *v1alpha1.Machine) time.Time {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		if c.Type == v1alpha1.ConditionServerReady && c.LastTransitionTime != nil {
			return c.LastTransitionTime.Time
		}
	}
	return m.CreationTimestamp.Time
}

// attempt is when the cloud was last asked for the Machine's server.
func attempt(m *v1alpha1.Machine) time.Time {
	if op := m.Status.LastOperation; op != nil && op.LastUpdated != nil {
		return op.LastUpdated.Time
	}
	if m.Status.LastUpdated != nil {
		return m.Status.LastUpdated.Time
	}
	return m.CreationTimestamp.Time
}
