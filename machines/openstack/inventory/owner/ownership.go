package owner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Cluster is the ID of a cluster, which drover writes on what it makes. Its methods decide whose a resource is; nothing else does.
type Cluster string

// Verdict is the answer to the question whether a resource belongs to a Machine.
type Verdict string

const (
	// Mine means that it is the Machine's.
	Mine Verdict = "Mine"
	// Adoptable means that it is nobody's, and an operator allows this Machine to take it over.
	Adoptable Verdict = "Adoptable"
	// Foreign means that it is somebody else's. Nothing is written to it, read from it or deleted.
	Foreign Verdict = "Foreign"
	// Undecided means that it is not known yet. It is treated as foreign, and asked again.
	Undecided Verdict = "Unknown"
)

// ServerTags are what the cloud says of the owner of a server.
type ServerTags struct {
	ID, Name string
	// Machine is the UID in the server's machine-uid, Cluster the ID in its drover-cluster-id; either may be empty.
	Machine types.UID
	Cluster string
}

// Existence says whether the Machine exists whose UID a server has.
type Existence int

const (
	// ExistenceUnknown means that nothing could be looked up.
	ExistenceUnknown Existence = iota
	// Exists means that there is such a Machine.
	Exists
	// ExistsNot means that there is none.
	ExistsNot
)

// MachineOf returns the UID of the Machine that a server belongs to by its tags; empty when it has none, or when it has
// another cluster's ID: then it is never ours, also when a Machine of ours has the same UID, as in a cluster that was
// restored from the other's backup.
func (c Cluster) MachineOf(t ServerTags) types.UID {
	if t.Cluster != "" && t.Cluster != string(c) {
		return ""
	}
	return t.Machine
}

// JudgeServer decides whether a server belongs to a Machine. owner says whether the Machine exists that the server's tag names.
// The reason is for people; it is empty when the server is the Machine's or adoptable.
func (c Cluster) JudgeServer(m *Machine, t ServerTags, owner Existence) (Verdict, string) {
	switch {
	case t.Cluster != "" && t.Cluster != string(c):
		return Foreign, fmt.Sprintf("server %s belongs to another cluster: its metadata %s is %s", t.ID, MetadataClusterID, t.Cluster)
	case t.Machine != "" && t.Machine == m.UID:
		return Mine, ""
	case t.Machine == "":
		return Foreign, fmt.Sprintf("server %s does not belong to this Machine: it has no metadata %s", t.ID, MetadataMachineUID)
	case m.Adopts != t.ID:
		return Foreign, fmt.Sprintf("server %s belongs to the Machine with UID %s: its metadata %s says so", t.ID, t.Machine, MetadataMachineUID)
	case t.Name != m.ServerName:
		return Foreign, fmt.Sprintf("server %s cannot be adopted: its name is %s, and this Machine's server must be named %s", t.ID, t.Name, m.ServerName)
	case owner == Exists:
		return Foreign, fmt.Sprintf("server %s cannot be adopted: the Machine with UID %s, which its metadata %s names, exists", t.ID, t.Machine, MetadataMachineUID)
	case owner == ExistenceUnknown:
		return Undecided, fmt.Sprintf("server %s cannot be adopted yet: it is not known whether the Machine with UID %s exists", t.ID, t.Machine)
	}
	return Adoptable, ""
}

// JudgeAddress decides whether a port or a floating IP belongs to a Machine, by its description. onOwn reports whether the
// inventory has seen it on the Machine's own server: the floating IPs that machine-controller made have no owner tag.
func (c Cluster) JudgeAddress(m *Machine, k Kind, description string, onOwn bool) Verdict {
	tag, tagged := parse(k, description)
	switch {
	case tagged && tag.Cluster == string(c) && tag.Machine == m.UID:
		return Mine
	case !tagged && onOwn:
		return Mine
	}
	return Foreign
}

// Read returns the owner tag in a description, and reports whether there is one and it is of this cluster.
func (c Cluster) Read(k Kind, description string) (Tag, bool) {
	tag, ok := parse(k, description)
	return tag, ok && tag.Cluster == string(c)
}

// Tag returns the owner tag of the n-th resource of that kind of a Machine, counted from 0.
func (c Cluster) Tag(k Kind, machine types.UID, n int) Tag { return Tag{k, string(c), machine, n} }

// Metadata returns the owner tag of a server of a Machine: two keys and values of its metadata.
func (c Cluster) Metadata(machine types.UID) map[string]string {
	return map[string]string{MetadataMachineUID: string(machine), MetadataClusterID: string(c)}
}

// Has reports whether a server has the ID of this cluster.
func (c Cluster) Has(t ServerTags) bool { return t.Cluster == string(c) }

// JudgeAbsence decides what it means that a server cannot be found in a place, or was seen deleted there. seen reports whether
// the server was seen in that place with the Machine's own tags. Mine: the server that the Machine had is gone. Undecided:
// the absence proves nothing, for the given reason.
func (c Cluster) JudgeAbsence(m *Machine, here Site, seen bool) (Verdict, string) {
	switch {
	case seen, m.Recorded == here:
		return Mine, ""
	case m.Recorded == Site{}:
		return Undecided, fmt.Sprintf("no record says in which project the server was made, and it is not in %s: its absence there is no proof that it is gone", here)
	}
	return Undecided, fmt.Sprintf("the server was made in %s, and the Machine's credentials are for %s: nothing is known of it until they are for the first again", m.Recorded, here)
}
