package nodegroup

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// messagesPerGroup bounds how many errors of a group bear a message: an answer must stay below 4 MiB, whatever fails
// (CA-C55). The autoscaler itself shows three.
const messagesPerGroup = 1000

// instances lists what the autoscaler is shown of a group: hidden Machines as Deleting, the others as Running or
// Creating, and a placeholder for each unit that has no Machine. Those that are not Deleting are as many as the target
// size says (CA-C38, C39).
func (s *Snapshot) instances(g *group) []Instance {
	list := make([]Instance, 0, len(g.members)+int(g.gap))
	errors := 0
	for _, m := range g.members {
		i := Instance{ID: m.id(), State: Creating}
		switch {
		case g.hidden[m.machine.UID] != "":
			i.State = Deleting
		case m.registered():
			i.State = Running
		default:
			i.Error = s.failure(m)
		}
		if i.Error != nil {
			if errors++; errors > messagesPerGroup {
				i.Error.Message = ""
			}
		}
		list = append(list, i)
	}
	for n := range g.gap {
		list = append(list, Instance{
			ID:    placeholder{group: g.id, series: g.series(), ordinal: n}.String(),
			State: Creating,
		})
	}
	return list
}

// failure is what the autoscaler is told of a Machine without a node: nil while the error may pass by itself (CA-C47),
// and while it is the one that was acted upon.
func (s *Snapshot) failure(m *member) *InstanceError {
	status := m.machine.Status
	if m.node != nil || status.ErrorReason == nil || *status.ErrorReason == "" {
		return nil
	}
	code := fault.Code(*status.ErrorReason)
	policy := fault.PolicyOf(fault.ClassOf(code))
	if policy.ShownAfter < 0 || s.now.Sub(withoutServerSince(m.machine)) < policy.ShownAfter {
		return nil
	}
	if seen, ok := s.seen[m.machine.UID]; ok && !attempt(m.machine).After(seen) {
		return nil
	}
	e := &InstanceError{Code: string(code), OutOfResources: policy.OutOfResources}
	if status.ErrorMessage != nil {
		e.Message = fault.Line(*status.ErrorMessage)
	}
	return e
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
