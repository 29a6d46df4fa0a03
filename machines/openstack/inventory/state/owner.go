package state

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// The metadata keys of a server's owner tag.
const (
	// MetadataMachineUID holds the UID of the Machine. machine-controller uses the same key, so that each program recognises the
	// other's servers.
	MetadataMachineUID = "machine-uid"
	// MetadataClusterID holds the cluster ID.
	MetadataClusterID = "drover-cluster-id"
)

// Tag is an owner tag: it names the Machine that owns a resource. It is the description of a port or floating IP, and part of the
// metadata of a server.
type Tag struct {
	Kind    cloud.ResourceKind
	Cluster string
	Machine types.UID
	// N numbers the resources of that kind of one Machine, from 0.
	N int
}

const tagPrefix = "drover"

// String returns the description of the port or floating IP with this tag. drover finds the resource by this description.
func (tag Tag) String() string {
	return fmt.Sprintf("%s %s %s %d", tagPrefix, tag.Cluster, tag.Machine, tag.N)
}

// parseTag parses the description of a resource. It returns false when drover did not write it.
func parseTag(kind cloud.ResourceKind, description string) (Tag, bool) {
	parts := strings.Split(description, " ")
	if len(parts) != 4 || parts[0] != tagPrefix {
		return Tag{}, false
	}
	n, err := strconv.Atoi(parts[3])
	return Tag{Kind: kind, Cluster: parts[1], Machine: types.UID(parts[2]), N: n}, err == nil
}

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

// Cluster is the cluster ID, as it is written in owner tags. Only its methods decide who owns a resource.
type Cluster string

// Existence states whether the Machine in a server's tags exists.
type Existence int

const (
	// ExistenceUnknown means that the look-up failed.
	ExistenceUnknown Existence = iota
	// Exists means that the Machine exists.
	Exists
	// ExistsNot means that the Machine does not exist.
	ExistsNot
)

// MachineOf returns the UID of the Machine in a server's tags. It is empty when there is none, or when the tags have another
// cluster's ID. A server with another cluster's ID never belongs to this cluster, even when a Machine of this cluster has the same
// UID, as in a cluster that was restored from the other cluster's backup.
func (c Cluster) MachineOf(t Metadata) types.UID {
	if t.Cluster != "" && t.Cluster != string(c) {
		return ""
	}
	return t.Machine
}

// WhyForeign returns, for users, why a server does not belong to a Machine; empty when it is the Machine's, or when the Machine in the
// server's tag does not exist any more and an operator allows this Machine to take the server over. owner states whether the Machine in the
// server's tag exists. drover does not write, use or delete the server of another owner. undecided is true when the owner is not known
// yet: drover treats the server as another owner's, and decides again later.
func (c Cluster) WhyForeign(m *Machine, r *ServerRow, owner Existence) (reason string, undecided bool) {
	switch t := r.Metadata; {
	case t.Cluster != "" && t.Cluster != string(c):
		return fmt.Sprintf("server %s belongs to another cluster: its metadata %s is %s", r.ID, MetadataClusterID, t.Cluster), false
	case t.Machine != "" && t.Machine == m.UID:
		return "", false
	case t.Machine == "":
		return fmt.Sprintf("server %s does not belong to this Machine: it has no metadata %s", r.ID, MetadataMachineUID), false
	case m.Adopts != r.ID:
		return fmt.Sprintf("server %s belongs to the Machine with UID %s, which its metadata %s names", r.ID, t.Machine, MetadataMachineUID), false
	case r.Name != m.ServerName:
		return fmt.Sprintf("server %s cannot be adopted: its name is %s, and this Machine's server must be named %s", r.ID, r.Name, m.ServerName), false
	case owner == Exists:
		return fmt.Sprintf("server %s cannot be adopted: the Machine with UID %s, which its metadata %s names, exists", r.ID, t.Machine, MetadataMachineUID), false
	case owner == ExistenceUnknown:
		return fmt.Sprintf("server %s cannot be adopted yet: it is not known whether the Machine with UID %s exists", r.ID, t.Machine), true
	}
	return "", false
}

// Read returns the owner tag in a description, and reports whether there is one of this cluster.
func (c Cluster) Read(k cloud.ResourceKind, description string) (Tag, bool) {
	tag, ok := parseTag(k, description)
	return tag, ok && tag.Cluster == string(c)
}

// Tag returns the owner tag of the n-th resource of that kind of a Machine, counted from 0.
func (c Cluster) Tag(k cloud.ResourceKind, machine types.UID, n int) Tag {
	return Tag{k, string(c), machine, n}
}

// metadata returns the metadata with the owner tag of a Machine's server.
func (c Cluster) metadata(machine types.UID) Metadata {
	return Metadata{Machine: machine, Cluster: string(c)}
}

// Has reports whether a server's tags name this cluster.
func (c Cluster) Has(t Metadata) bool { return t.Cluster == string(c) }

// doubtAbsence returns why it proves nothing that one project (here) lacks the Machine's server, or showed it as deleted; empty when the
// server is gone. seen is true when a list of this project has shown the server with the Machine's own tags.
func doubtAbsence(m *Machine, here Site, seen bool) string {
	switch {
	case seen, m.Recorded == here:
		return ""
	case m.Recorded == Site{}:
		return fmt.Sprintf("no record shows in which project the server was created; it is not in %s, but that does not prove that it is gone", here)
	}
	return fmt.Sprintf("the server was created in %s, but the Machine's credentials are now for %s: drover cannot look for the server until the credentials are for the first of these projects again", m.Recorded, here)
}
