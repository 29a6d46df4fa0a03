// Package nodegroup says what a node group is: a MachineDeployment with bounds, seen with the eyes of the
// cluster-autoscaler. It gives sizes, members, instances with their errors and the template node, all from one immutable
// value in memory, and it resizes and removes with one conditional write each.
//
// The rules, and their numbers (CA-C01 …), are what the core of cluster-autoscaler relies on; docs/cluster-autoscaler.md
// tells them for people.
package nodegroup

import "github.com/drover-project/drover/machines/api/v1alpha1"

// Group is a node group as it is listed.
type Group struct {
	// ID is MachineDeployment/<namespace>/<name>.
	ID string
	// Min and Max bound what the autoscaler may do; people may go beyond.
	Min, Max int32
	// Debug is a line for people.
	Debug string
}

// Node is what a request says of a node.
type Node struct {
	ProviderID, Name    string
	Labels, Annotations map[string]string
}

// fake tells whether the autoscaler made the node up for an instance that has no node.
func (n Node) fake() bool {
	_, ok := n.Annotations[annotationFake]
	return ok
}

// madeUp tells whether there is no such node, as far as the autoscaler knows.
func (n Node) madeUp() bool {
	_, isPlaceholder := n.placeholder()
	return isPlaceholder || n.fake()
}

// placeholder reads the node's id as that of an instance without a node, or of a template node.
func (n Node) placeholder() (placeholder, bool) {
	if p, ok := parsePlaceholder(n.ProviderID); ok {
		return p, true
	}
	if p, ok := parsePlaceholder(n.Name); ok {
		return p, true
	}
	if group := n.Annotations[v1alpha1.AnnotationNodeGroup]; group != "" {
		return placeholder{group: group, template: true}, true
	}
	return placeholder{}, false
}

// String names the node in messages.
func (n Node) String() string {
	if n.Name == "" || n.Name == n.ProviderID {
		return n.ProviderID
	}
	if n.ProviderID == "" {
		return n.Name
	}
	return n.Name + " (" + n.ProviderID + ")"
}

// State is where an instance is in its life.
type State string

// The states.
const (
	// Running: its node is registered.
	Running State = "Running"
	// Creating: its node is awaited.
	Creating State = "Creating"
	// Deleting: it goes, and does not count.
	Deleting State = "Deleting"
)

// Instance is a server with a node, or one unit of the group's size that has none yet.
type Instance struct {
	// ID is the node's spec.providerID, to the letter; a placeholder until there is such a node.
	ID    string
	State State
	// Error says why an instance in state Creating does not come; nil otherwise (CA-C50).
	Error *InstanceError
}

// InstanceError says why an instance does not come.
type InstanceError struct {
	// Code is one of package fault's; never empty.
	Code string
	// Message is one line of at most fault.MaxShort bytes.
	Message string
	// OutOfResources: quota or capacity; the autoscaler is told class 1, else 99.
	OutOfResources bool
}
