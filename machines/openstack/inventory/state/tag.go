package state

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The metadata keys of a server's owner tag.
const (
	// MetadataMachineUID holds the UID of the Machine. machine-controller uses the same key, so that each program recognises the
	// other's servers.
	MetadataMachineUID = "machine-uid"
	// MetadataClusterID holds the cluster ID.
	MetadataClusterID = "drover-cluster-id"
)

// Kind is the type of a resource that has an owner tag.
type Kind string

// The kinds of resources.
const (
	PortKind       Kind = "port"
	FloatingIPKind Kind = "floating IP"
	ServerKind     Kind = "server"
)

// Tag is an owner tag: it names the Machine that owns a resource. It is the description of a port or floating IP, and part of the
// metadata of a server.
type Tag struct {
	Kind    Kind
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
func parseTag(kind Kind, description string) (Tag, bool) {
	parts := strings.Split(description, " ")
	if len(parts) != 4 || parts[0] != tagPrefix {
		return Tag{}, false
	}
	n, err := strconv.Atoi(parts[3])
	return Tag{Kind: kind, Cluster: parts[1], Machine: types.UID(parts[2]), N: n}, err == nil
}
