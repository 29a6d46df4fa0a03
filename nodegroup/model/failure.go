package model

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

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

// uncreated returns the error of the replicas without a Machine, and how many of them show it; nil when the API server has not refused the
// group's Machines. Replicas that the group cannot lose show no error, because the autoscaler would remove them again and again.
func (s *Snapshot) uncreated(g *Group) (*InstanceError, int32) {
	if g.Newest == nil || g.Held() {
		return nil, 0
	}
	code := fault.Code(ptr.Deref(g.Newest.Status.ErrorReason, ""))
	c := apimeta.FindStatusCondition(g.Newest.Status.Conditions, v1alpha1.ConditionReplicaFailure)
	if c == nil || !fault.ConcernsObjects(code) {
		return nil, 0
	}
	policy := fault.PolicyOf(fault.ClassOf(code))
	if shown := c.LastTransitionTime.Add(policy.ShownAfter); s.now.Before(shown) {
		g.recheckAt(shown)
		return nil, 0
	}
	message := fault.Short(ptr.Deref(g.Newest.Status.ErrorMessage, ""))
	return &InstanceError{Code: string(code), Message: message, OutOfResources: policy.OutOfResources}, min(g.Gap, g.Lowerable(), messagesPerGroup)
}

// ownFailure returns the Machine's own error, and when the Machine last failed. The error is nil while the failure may still end without
// intervention (CA-C47).
func (s *Snapshot) ownFailure(g *Group, m *membership.Member) (*InstanceError, time.Time) {
	code, message := obstacle(m)
	if code == "" {
		return nil, time.Time{}
	}
	policy := fault.PolicyOf(fault.ClassOf(code))
	if policy.ShownAfter < 0 {
		return nil, time.Time{}
	}
	if shown := withoutServerSince(m.Machine).Add(policy.ShownAfter); s.now.Before(shown) {
		g.recheckAt(shown)
		return nil, time.Time{}
	}
	e := &InstanceError{Code: string(code), Message: fault.Short(message), OutOfResources: policy.OutOfResources}
	return e, lastAttempt(m.Machine)
}

// obstacle returns why a Machine has no working server: the error in its status, or else the annotation that keeps drover from creating a
// server. Without that error the autoscaler would wait for a node that its group's author withholds (F-92).
func obstacle(m *membership.Member) (fault.Code, string) {
	status, annotations := &m.Machine.Status, m.Machine.Annotations
	switch {
	case ptr.Deref(status.ErrorReason, "") != "":
		return fault.Code(*status.ErrorReason), ptr.Deref(status.ErrorMessage, "")
	case m.Facts.HasServer():
	case v1alpha1.Paused(annotations):
		return fault.CodePaused, "the Machine is paused by annotation and has no server"
	case annotations[v1alpha1.AnnotationInitializers] != "":
		return fault.CodeWaitingForInitializers, "the annotation " + v1alpha1.AnnotationInitializers + " keeps the Machine without a server"
	}
	return "", ""
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
	if c := m.Condition(v1alpha1.ConditionServerReady); c.LastTransitionTime != nil {
		return c.LastTransitionTime.Time
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
