package owner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Site is a project in a region.
type Site struct{ Project, Region string }

// String returns both in words.
func (s Site) String() string { return fmt.Sprintf("project %s in region %q", s.Project, s.Region) }

// Machine describes a Machine to the inventory. Nothing in it but the UID, and what an operator allows, is evidence that
// something in the cloud belongs to the Machine: its author wrote the rest.
type Machine struct {
	UID types.UID
	// ServerName is the name that the Machine's server has.
	ServerName string
	// ServerID is the ID of the server that spec.providerID names; empty: it names none. It says where to look, no more.
	ServerID string
	// Adopts is the ID of the server that an operator allows the Machine to take over; empty: none, or the annotation is not
	// guarded.
	Adopts string
	// Refusal is why the server that Adopts names may not be adopted; empty while nothing speaks against it. Adopt sets it.
	Refusal string
	// FloatingIPID is the ID of the floating IP that an annotation of machine-controller names; empty: none.
	FloatingIPID string
	// Recorded is where the Machine's server was last seen; zero: nothing is recorded.
	Recorded Site
	// Leaving is true while the Machine is being deleted; Joined once it has a Node.
	Leaving, Joined bool
}

// Machines holds the Machines that asked for their cloud side. Its methods are called while the inventory is locked: they
// must not call the inventory.
type Machines interface {
	// Get returns the Machine with that UID, and reports whether there is one.
	Get(uid types.UID) (Machine, bool)
	// Naming returns the UID of the Machine whose spec.providerID names a server; empty: none does.
	Naming(serverID string) types.UID
}
