package model

import (
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// failure returns the error that the autoscaler receives for a Machine without a node. That is the Machine's own error, or else the
// error of the back-off that keeps the Machine from requesting a server. failure returns nil when the autoscaler has already acted
// upon that error.
func (s *Snapshot) failure(g *Group, m *membership.Member) *InstanceError {
	e, when := s.ownFailure(g, m)
	if e == nil {
		e, when = g.shortage(m)
	}
	if seen, ok := s.seen[m.UID()]; ok && !when.After(seen) {
		return nil
	}
	return e
}

// ownFailure returns the Machine's own error, and when the Machine last failed. The error is nil while the failure may still end without
// intervention (CA-C47).
func (s *Snapshot) ownFailure(g *Group, m *membership.Member) (*InstanceError, time.Time) {
	status := &m.Machine.Status
	if status.ErrorReason == nil || *status.ErrorReason == "" {
		return nil, time.Time{}
	}
	code := fault.Code(*status.ErrorReason)
	policy := fault.PolicyOf(fault.ClassOf(code))
	if policy.ShownAfter < 0 {
		return nil, time.Time{}
	}
	if shown := withoutServerSince(m.Machine).Add(policy.ShownAfter); s.now.Before(shown) {
		g.recheckAt(shown)
		return nil, time.Time{}
	}
	e := &InstanceError{Code: string(code), OutOfResources: policy.OutOfResources}
	if status.ErrorMessage != nil {
		e.Message = fault.Short(*status.ErrorMessage)
	}
	return e, lastAttempt(m.Machine)
}

// lastFailure returns the time of the failure whose error the autoscaler receives for a Machine.
func (g *Group) lastFailure(m *membership.Member) time.Time {
	last := lastAttempt(m.Machine)
	if _, when := g.shortage(m); when.After(last) {
		return when
	}
	return last
}

// withoutServerSince returns the time since which a Machine has had no working server.
func withoutServerSince(m *v1alpha1.Machine) time.Time {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		if c.Type == v1alpha1.ConditionServerReady && c.LastTransitionTime != nil {
			return c.LastTransitionTime.Time
		}
	}
	return m.CreationTimestamp.Time
}

// lastAttempt returns when drover last requested the Machine's server from the cloud.
func lastAttempt(m *v1alpha1.Machine) time.Time {
	if op := m.Status.LastOperation; op != nil && op.LastUpdated != nil {
		return op.LastUpdated.Time
	}
	if m.Status.LastUpdated != nil {
		return m.Status.LastUpdated.Time
	}
	return m.CreationTimestamp.Time
}
