package state

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Cluster is the cluster ID, as it is written in owner tags. Only its methods decide who owns a resource.
type Cluster string

// Verdict is the result of the decision whether a resource belongs to a Machine.
type Verdict string

const (
	// Mine means that the resource belongs to the Machine.
	Mine Verdict = "Mine"
	// Adoptable means that the owner in the resource's tag does not exist any more, and an operator allows this Machine to take
	// the resource over.
	Adoptable Verdict = "Adoptable"
	// Foreign means that the resource has another owner. drover does not write, use or delete it.
	Foreign Verdict = "Foreign"
	// Undecided means that the owner is not known yet. drover treats the resource as foreign, and decides again later.
	Undecided Verdict = "Unknown"
)

// ServerTags are the fields of a server that show its owner.
type ServerTags struct {
	ID, Name string
	// Machine is the UID in the server's metadata machine-uid. Cluster is the ID in its metadata drover-cluster-id. Either may be
	// empty.
	Machine types.UID
	Cluster string
}

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
func (c Cluster) MachineOf(t ServerTags) types.UID {
	if t.Cluster != "" && t.Cluster != string(c) {
		return ""
	}
	return t.Machine
}

// JudgeServer decides whether a server belongs to a Machine. owner states whether the Machine in the server's tag exists. The
// reason is for users; it is empty when the server is the Machine's or adoptable.
func (c Cluster) JudgeServer(m *Machine, t ServerTags, owner Existence) (Verdict, string) {
	switch {
	case t.Cluster != "" && t.Cluster != string(c):
		return Foreign, fmt.Sprintf("server %s belongs to another cluster: its metadata %s is %s", t.ID, MetadataClusterID, t.Cluster)
	case t.Machine != "" && t.Machine == m.UID:
		return Mine, ""
	case t.Machine == "":
		return Foreign, fmt.Sprintf("server %s does not belong to this Machine: it has no metadata %s", t.ID, MetadataMachineUID)
	case m.Adopts != t.ID:
		return Foreign, fmt.Sprintf("server %s belongs to the Machine with UID %s, which its metadata %s names", t.ID, t.Machine, MetadataMachineUID)
	case t.Name != m.ServerName:
		return Foreign, fmt.Sprintf("server %s cannot be adopted: its name is %s, and this Machine's server must be named %s", t.ID, t.Name, m.ServerName)
	case owner == Exists:
		return Foreign, fmt.Sprintf("server %s cannot be adopted: the Machine with UID %s, which its metadata %s names, exists", t.ID, t.Machine, MetadataMachineUID)
	case owner == ExistenceUnknown:
		return Undecided, fmt.Sprintf("server %s cannot be adopted yet: it is not known whether the Machine with UID %s exists", t.ID, t.Machine)
	}
	return Adoptable, ""
}

// JudgeAddress decides whether a port or a floating IP belongs to a Machine, by its description. onOwn is true when the port or
// floating IP is known to have been on the Machine's own server. For a floating IP of machine-controller, which has no owner tag,
// onOwn alone decides.
func (c Cluster) JudgeAddress(m *Machine, k Kind, description string, onOwn bool) Verdict {
	tag, tagged := parseTag(k, description)
	switch {
	case tagged && tag.Cluster == string(c) && tag.Machine == m.UID:
		return Mine
	case !tagged && onOwn:
		return Mine
	}
	return Foreign
}

// Read returns the owner tag in a description, and reports whether there is one of this cluster.
func (c Cluster) Read(k Kind, description string) (Tag, bool) {
	tag, ok := parseTag(k, description)
	return tag, ok && tag.Cluster == string(c)
}

// Tag returns the owner tag of the n-th resource of that kind of a Machine, counted from 0.
func (c Cluster) Tag(k Kind, machine types.UID, n int) Tag { return Tag{k, string(c), machine, n} }

// Metadata returns the metadata with the owner tag of a Machine's server.
func (c Cluster) Metadata(machine types.UID) map[string]string {
	return map[string]string{MetadataMachineUID: string(machine), MetadataClusterID: string(c)}
}

// Has reports whether a server's tags name this cluster.
func (c Cluster) Has(t ServerTags) bool { return t.Cluster == string(c) }

// JudgeAbsence decides whether the Machine's server is gone, when one project (here) lacks the server, or showed it as deleted.
// seen is true when a list of this project has shown the server with the Machine's own tags. Mine means that the Machine's server
// is gone. Undecided means that the absence proves nothing; the returned text is the reason.
func (c Cluster) JudgeAbsence(m *Machine, here Site, seen bool) (Verdict, string) {
	switch {
	case seen, m.Recorded == here:
		return Mine, ""
	case m.Recorded == Site{}:
		return Undecided, fmt.Sprintf("no record shows in which project the server was created; it is not in %s, but that does not prove that it is gone", here)
	}
	return Undecided, fmt.Sprintf("the server was created in %s, but the Machine's credentials are now for %s: drover cannot look for the server until the credentials are for the first of these projects again", m.Recorded, here)
}
