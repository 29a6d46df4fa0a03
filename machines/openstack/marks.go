package openstack

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The keys of a server's metadata that say whose it is. The first is machine-controller's, so that either program
// recognises the other's servers.
const (
	metadataMachineUID = "machine-uid"
	metadataClusterID  = "drover-cluster-id"
)

// kind is what bears a mark.
type kind string

const (
	portKind     kind = "port"
	floatingKind kind = "floating IP"
	serverKind   kind = "server"
)

// mark says whose a resource is, and the how manieth of its kind of that Machine. Ports and floating IPs bear it as
// their description, servers in their metadata.
type mark struct {
	Kind    kind
	Cluster string
	Machine types.UID
	N       int
}

const markPrefix = "drover"

// String is the exact description; things are found again by it.
func (m mark) String() string {
	return fmt.Sprintf("%s %s %s %d", markPrefix, m.Cluster, m.Machine, m.N)
}

// parseMark reads a description; false when it is not one of drover's.
func parseMark(kind kind, description string) (mark, bool) {
	parts := strings.Split(description, " ")
	if len(parts) != 4 || parts[0] != markPrefix {
		return mark{}, false
	}
	n, err := strconv.Atoi(parts[3])
	return mark{Kind: kind, Cluster: parts[1], Machine: types.UID(parts[2]), N: n}, err == nil
}
