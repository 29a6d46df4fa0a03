package inventory

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// ownership decides which Machine a resource in the cloud belongs to. Nothing else in this package decides that. What a
// Machine says of itself (spec.providerID) is not evidence: it only says where to look. Evidence is what the cloud says:
// the metadata of a server, and the description of a port or floating IP.
type ownership struct {
	// cluster is the cluster ID that drover writes on what it makes.
	cluster string
}

// verdict is the answer to the question whether a resource belongs to a Machine.
type verdict string

const (
	// mine: it is the Machine's.
	mine verdict = "Mine"
	// adoptable: it is nobody's, and an operator allows this Machine to take it over.
	adoptable verdict = "Adoptable"
	// foreign: it is somebody else's. Nothing is written to it, read from it or deleted.
	foreign verdict = "Foreign"
	// undecided: it is not known yet. It is treated as foreign, and asked again.
	undecided verdict = "Unknown"
)

// Site is a project in a region.
type Site struct{ Project, Region string }

// String returns both in words.
func (s Site) String() string { return fmt.Sprintf("project %s in region %q", s.Project, s.Region) }

// serverTags are what the cloud says of the owner of a server.
type serverTags struct {
	id, name string
	// machine is the UID in the server's machine-uid, cluster the ID in its drover-cluster-id; either may be empty.
	machine types.UID
	cluster string
}

// existence says whether the Machine exists whose UID a server has.
type existence int

const (
	existenceUnknown existence = iota
	exists
	existsNot
)

// machine returns the UID of the Machine that a server belongs to by its tags; empty when it has none, or when it has
// another cluster's ID: then it is never ours, also when a Machine of ours has the same UID, as in a cluster that was
// restored from the other's backup.
func (o ownership) machine(t serverTags) types.UID {
	if t.cluster != "" && t.cluster != o.cluster {
		return ""
	}
	return t.machine
}

// server decides whether a server belongs to a Machine. owner says whether the Machine exists that the server's tag names.
// The reason is for people; it is empty when the server is the Machine's or adoptable.
func (o ownership) server(m *Machine, t serverTags, owner existence) (verdict, string) {
	switch {
	case t.cluster != "" && t.cluster != o.cluster:
		return foreign, fmt.Sprintf("server %s belongs to another cluster: its metadata %s is %s", t.id, MetadataClusterID, t.cluster)
	case t.machine != "" && t.machine == m.UID:
		return mine, ""
	case t.machine == "":
		return foreign, fmt.Sprintf("server %s does not belong to this Machine: it has no metadata %s", t.id, MetadataMachineUID)
	case m.Adopts != t.id:
		return foreign, fmt.Sprintf("server %s belongs to the Machine with UID %s: its metadata %s says so", t.id, t.machine, MetadataMachineUID)
	case t.name != m.ServerName:
		return foreign, fmt.Sprintf("server %s cannot be adopted: its name is %s, and this Machine's server must be named %s", t.id, t.name, m.ServerName)
	case owner == exists:
		return foreign, fmt.Sprintf("server %s cannot be adopted: the Machine with UID %s, which its metadata %s names, exists", t.id, t.machine, MetadataMachineUID)
	case owner == existenceUnknown:
		return undecided, fmt.Sprintf("server %s cannot be adopted yet: it is not known whether the Machine with UID %s exists", t.id, t.machine)
	}
	return adoptable, ""
}

// address decides whether a port or a floating IP belongs to a Machine, by its description. onOwn reports whether the
// inventory has seen it on the Machine's own server: the floating IPs that machine-controller made have no owner tag.
func (o ownership) address(m *Machine, k Kind, description string, onOwn bool) verdict {
	tag, marked := parseTag(k, description)
	switch {
	case marked && tag.Cluster == o.cluster && tag.Machine == m.UID:
		return mine
	case !marked && onOwn:
		return mine
	}
	return foreign
}

// tag returns the owner tag in a description, and reports whether there is one and it is of this cluster.
func (o ownership) tag(k Kind, description string) (OwnerTag, bool) {
	m, ok := parseTag(k, description)
	return m, ok && m.Cluster == o.cluster
}

// absence decides what it means that a server cannot be found in a place, or was seen deleted there. seen reports whether
// the server was seen in that place with the Machine's own tags. Mine: the server that the Machine had is gone. Unknown:
// the absence proves nothing, for the given reason.
func (o ownership) absence(m *Machine, here Site, seen bool) (verdict, string) {
	switch {
	case seen, m.Recorded == here:
		return mine, ""
	case m.Recorded == Site{}:
		return undecided, fmt.Sprintf("no record says in which project the server was made, and it is not in %s: its absence there is no proof that it is gone", here)
	}
	return undecided, fmt.Sprintf("the server was made in %s, and the Machine's credentials are for %s: nothing is known of it until they are for the first again", m.Recorded, here)
}
