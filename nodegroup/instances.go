package nodegroup

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// messagesPerGroup bounds how many errors of a group bear a message: an answer must stay below 4 MiB, whatever fails
// (CA-C55). The autoscaler itself shows three.
const messagesPerGroup = 1000

// list says what the autoscaler is shown of a group: hidden Machines as Deleting, the others as Running or Creating, and
// a placeholder for each unit that has no Machine. Those that are not Deleting are as many as the target size says (CA-C38,
// C39).
func (s *Snapshot) list(g *group) {
	g.instances = make([]Instance, 0, len(g.members)+int(g.gap))
	errors := 0
	for _, m := range g.members {
		i := Instance{ID: m.id(g.id), State: Creating}
		switch {
		case g.hidden[m.machine.UID] != "":
			i.State = Deleting
		case m.registered():
			i.State = Running
		default:
			i.Error = s.failure(g, m)
		}
		if i.Error != nil {
			if errors++; errors > messagesPerGroup {
				i.Error.Message = ""
			}
		} else if i.State == Creating {
			g.awaited++
		}
		if i.State != Deleting && i.Error == nil && !m.usable(s.startup) {
			g.coming++
		}
		g.instances = append(g.instances, i)
	}
	for n := range g.gap {
		g.awaited++
		g.coming++
		g.instances = append(g.instances, Instance{
			ID:    placeholder{group: g.id, series: g.series(), ordinal: n}.String(),
			State: Creating,
		})
	}
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
	status := m.machine.Status
	if status.ErrorReason == nil || *status.ErrorReason == "" {
		return nil, time.Time{}
	}
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
		e.Message = fault.Line(*status.ErrorMessage)
	}
	return e, attempt(m.machine)
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
