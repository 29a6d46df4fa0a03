package model

import (
	"time"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// messagesPerGroup limits how many errors of a group have a message: an answer must stay below 4 MiB however many Machines fail
// (CA-C55). The autoscaler itself shows three messages.
const messagesPerGroup = 1000

// State is the state of an instance.
type State string

// The states.
const (
	// Running is the state of an instance whose node is registered.
	Running State = "Running"
	// Creating is the state of an instance whose node is awaited.
	Creating State = "Creating"
	// Deleting is the state of an instance that is being removed and does not count in the size.
	Deleting State = "Deleting"
)

// Instance is a server with a node, or one replica that has no node yet.
type Instance struct {
	// ID is exactly the node's spec.providerID. While there is no node with a provider ID, it is a placeholder.
	ID    string
	State State
	// Error is the reason why an instance in state Creating does not become a node; nil otherwise (CA-C50).
	Error *InstanceError
}

// InstanceError is why an instance does not become a node.
type InstanceError struct {
	// Code is an error code of package fault; never empty.
	Code string
	// Message is one line of at most fault.MaxShort bytes.
	Message string
	// OutOfResources is true for errors of quota and capacity. The autoscaler receives error class 1 for them, and 99 for all
	// others.
	OutOfResources bool
}

// listInstances determines the instances that the autoscaler receives for a group's Machines. Hidden Machines have the state
// Deleting, the others Running or Creating. The number of instances that are not Deleting, plus the replicas without a Machine,
// equals the target size (CA-C38, C39).
func (s *Snapshot) listInstances(g *Group) {
	g.instances = make([]Instance, 0, len(g.Members))
	g.refused, g.refusals = s.uncreated(g)
	g.Awaited, g.Coming = g.Gap-g.refusals, g.Gap-g.refusals
	failures := 0
	for _, m := range g.Members {
		i := s.instanceOf(g, m)
		g.instances = append(g.instances, i)
		switch {
		case i.Error != nil:
			if failures++; failures > messagesPerGroup {
				i.Error.Message = ""
			}
			continue
		case i.State == Deleting:
			continue
		case i.State == Creating && !g.Concealed(m):
			g.Awaited++
		}
		if !m.Usable(s.rules.StartupTaint) {
			g.Coming++
		}
	}
}

// instanceOf returns the instance that the autoscaler is shown for a member.
func (s *Snapshot) instanceOf(g *Group, m *membership.Member) Instance {
	i := Instance{ID: g.instanceID(m), State: Creating}
	switch {
	case !g.Counts(m):
		i.State = Deleting
	case g.Concealed(m):
	case m.Registered():
		i.State = Running
	case m.Node == nil:
		i.Error = s.failure(g, m)
	}
	return i
}

// instanceID returns the id of the member's instance: exactly its Node's provider ID, or else a placeholder.
func (g *Group) instanceID(m *membership.Member) string {
	if m.Registered() && !g.Concealed(m) {
		return m.ProviderID
	}
	return membership.Placeholder{Group: g.ID, Machine: m.Machine.Name}.String()
}

// recheckAt records that the answers about the group change at the given time, even without an event.
func (g *Group) recheckAt(when time.Time) {
	if g.recheck.IsZero() || when.Before(g.recheck) {
		g.recheck = when
	}
}
