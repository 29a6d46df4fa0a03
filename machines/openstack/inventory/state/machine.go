package state

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Site is a project in a region.
type Site struct{ Project, Region string }

// String returns the project and the region, for messages.
func (s Site) String() string { return fmt.Sprintf("project %s in region %q", s.Project, s.Region) }

// Machine is the inventory's view of a Machine. Only its UID and what an operator allows prove that a cloud resource belongs to the
// Machine, because the author of the Machine can write the other fields.
type Machine struct {
	UID types.UID
	// ServerName is the name of the Machine's server.
	ServerName string
	// ServerID is the ID of the server in spec.providerID; empty when there is none. It shows where to look and proves nothing.
	ServerID string
	// Adopts is the ID of the server that an operator allows the Machine to take over; empty when there is none, or when no
	// admission policy prevents others from setting the annotation.
	Adopts string
	// Refusal is the reason why the server in Adopts may not be adopted; empty when it may be adopted. Project.Adopt sets it.
	Refusal string
	// FloatingIPID is the ID of the floating IP in an annotation of machine-controller; empty when there is none.
	FloatingIPID string
	// Recorded is where the Machine's server was last seen; zero when that is not recorded.
	Recorded Site
	// Replaced is true when the Machine is replaced after it has lost its server: it has an owner and is not paused.
	Replaced bool
	// Leaving is true while the Machine is being deleted. Joined is true once it has a Node, and Ready while its status shows that this
	// Node is Ready.
	Leaving, Joined, Ready bool
}

// Machines has the Machines for which Cloud.Instance was called. Its methods are called with the lock of the inventory held: they
// must not call the inventory.
type Machines interface {
	// Get returns the Machine with that UID, and reports whether it is registered.
	Get(uid types.UID) (Machine, bool)
	// All returns all registered Machines, in no order.
	All() iter.Seq[Machine]
	// Naming returns the UID of the Machine whose spec.providerID names a server; empty when there is none.
	Naming(serverID string) types.UID
}
