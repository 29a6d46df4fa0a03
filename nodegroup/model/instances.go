package model

import (
	"time"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// messagesPerGroup bounds how many errors of a group have a message: an answer must stay below 4 MiB, whatever fails
// (CA-C55). The autoscaler itself shows three.
const messagesPerGroup = 1000

// State is where an instance is in its life.
type State string

// The states.
const (
	// Running: its node is registered.
	Running State = "Running"
	// Creating: its node is awaited.
	Creating State = "Creating"
	// Deleting: it is being removed, and does not count.
	Deleting State = "Deleting"
)

// Instance is a server with a node, or one unit of the group's size that has no node yet.
type Instance struct {
	// ID is the node's spec.providerID, to the letter; a placeholder until there is such a node.
	ID    string
	State State
	// Error is why the node of an instance in state Creating does not come; nil otherwise (CA-C50).
	Error *InstanceError
}

// InstanceError is why an instance does not become a node.
type InstanceError struct {
	// Code is one of package fault's; never empty.
	Code string
	// Message is one line of at most fault.MaxShort bytes.
	Message string
	// OutOfResources is set for quota and capacity: the autoscaler is told class 1, else 99.
	OutOfResources bool
}

// listInstances decides what the autoscaler is shown of a group's Machines: hidden ones as Deleting, the others as Running or
// Creating. With the units that have no Machine, those that are not Deleting are as many as the target size (CA-C38, C39).
func (s *Snapshot) listInstances(g *Group) {
	g.instances = make([]Instance, 0, len(g.Members))
	g.Awaited, g.Coming = g.Gap, g.Gap
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

// instanceOf returns what the autoscaler is shown of a member.
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

// instanceID returns the id under which the member is shown: its Node's provider ID, to the letter, else a placeholder.
func (g *Group) instanceID(m *membership.Member) string {
	if m.Registered() && !g.Concealed(m) {
		return m.ProviderID
	}
	return membership.Placeholder{Group: g.ID, Machine: m.Machine.Name}.String()
}

// recheckAt notes that what is shown changes at that time.
func (g *Group) recheckAt(when time.Time) {
	if g.recheck.IsZero() || when.Before(g.recheck) {
		g.recheck = when
	}
}
