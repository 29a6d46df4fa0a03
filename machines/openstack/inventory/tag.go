package inventory

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The keys of a server's metadata that say whose it is. The first is machine-controller's, so that either program
// recognises the other's servers.
const (
	MetadataMachineUID = "machine-uid"
	MetadataClusterID  = "drover-cluster-id"
)

// kind is what bears a mark.
type Kind string

const (
	PortKind       Kind = "port"
	FloatingIPKind Kind = "floating IP"
	ServerKind     Kind = "server"
)

// mark says whose a resource is, and the how manieth of its kind of that Machine. Ports and floating IPs bear it as
// their description, servers in their metadata.
type OwnerTag struct {
	Kind    Kind
	Cluster string
	Machine types.UID
	N       int
}

const markPrefix = "drover"

// String is the exact description; things are found again by it.
func (m OwnerTag) String() string {
	return fmt.Sprintf("%s %s %s %d", markPrefix, m.Cluster, m.Machine, m.N)
}

// parseTag reads a description; false when it is not one of drover's.
func parseTag(kind Kind, description string) (OwnerTag, bool) {
	parts := strings.Split(description, " ")
	if len(parts) != 4 || parts[0] != markPrefix {
		return OwnerTag{}, false
	}
	n, err := strconv.Atoi(parts[3])
	return OwnerTag{Kind: kind, Cluster: parts[1], Machine: types.UID(parts[2]), N: n}, err == nil
}
