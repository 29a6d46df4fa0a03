package state

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// ServerRow holds the fields of a server in Nova's lists that drover uses.
type ServerRow struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	TaskState string `json:"OS-EXT-STS:task_state"`
	// PowerState is the last power state that the hypervisor reported; 4 means shut down.
	PowerState int                  `json:"OS-EXT-STS:power_state"`
	Created    time.Time            `json:"created"`
	Updated    time.Time            `json:"updated"`
	HostID     string               `json:"hostId"`
	Zone       string               `json:"OS-EXT-AZ:availability_zone"`
	Metadata   Metadata             `json:"metadata"`
	Addresses  map[string][]Address `json:"addresses"`
	// AccessIPv4 and AccessIPv6 are the addresses under which the server is reached from outside, as somebody has recorded them in Nova;
	// usually empty.
	AccessIPv4 string   `json:"accessIPv4"`
	AccessIPv6 string   `json:"accessIPv6"`
	Fault      Fault    `json:"fault"`
	Volumes    []Volume `json:"os-extended-volumes:volumes_attached"`
}

// Metadata holds the metadata of a server that drover uses: its owner tag, and its further host name. Each may be empty.
type Metadata struct {
	// Machine is the UID in machine-uid, and Cluster the ID in drover-cluster-id.
	Machine types.UID
	Cluster string
	// Hostname is a host name in addition to the server's name.
	Hostname string
}

// metadataHostname is the key of a host name in addition to the server's name. The cloud-controller-manager shows it on the Node.
const metadataHostname = "hostname"

// mostValue is the maximum size of a value of metadata in bytes: Nova's maximum of 255 characters.
const mostValue = 4 * 255

// UnmarshalJSON keeps the owner tag and the host name. It ignores a value that Nova would have refused.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var all map[string]string
	err := json.Unmarshal(raw, &all)
	maps.DeleteFunc(all, func(_, value string) bool { return len(value) > mostValue })
	*m = Metadata{types.UID(all[MetadataMachineUID]), all[MetadataClusterID], all[metadataHostname]}
	return err
}

// Volume is a volume that is attached to a server.
type Volume struct {
	ID string `json:"id"`
	// EndsWithServer is true when Nova deletes the volume with the server. This is true for the boot volume, but not for volumes
	// that were attached later.
	EndsWithServer bool `json:"delete_on_termination"`
}

// Address is an address that a server has on a network.
type Address struct {
	Address string `json:"addr"`
	Type    string `json:"OS-EXT-IPS:type"`
}

// Fault is the reason why a server is in ERROR.
type Fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// The values of Status, TaskState and PowerState that drover uses in decisions.
const (
	statusBuild       = "BUILD"
	statusActive      = "ACTIVE"
	statusError       = "ERROR"
	statusShutOff     = "SHUTOFF"
	statusDeleted     = "DELETED"
	statusSoftDeleted = "SOFT_DELETED"
	taskDeleting      = "deleting"
	taskPoweringOn    = "powering-on"
	powerShutDown     = 4
)

// busyStatuses are the statuses of a server while an operation moves, changes or repairs it. Most of these operations show only
// in the status, and not as a task. Other operations show as a task, while the status stays ACTIVE or SHUTOFF.
var busyStatuses = []string{"RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING", "RESCUE", "REBUILD", "PASSWORD", "REBOOT", "HARD_REBOOT"}

// State returns the state of the server, from its status and its task.
func (r *ServerRow) State() cloud.ServerState {
	switch {
	case r.TaskState == taskDeleting, r.Status == statusDeleted, r.Status == statusSoftDeleted:
		return cloud.ServerDeleting
	case r.Status == statusBuild:
		return cloud.ServerBuilding
	case r.Status == statusActive:
		return cloud.ServerActive
	case r.Status == statusError:
		return cloud.ServerError
	case r.Status == statusShutOff && r.TaskState == taskPoweringOn:
		return cloud.ServerStarting
	case r.Status == statusShutOff && r.TaskState == "" && r.PowerState == powerShutDown:
		return cloud.ServerStopped
	}
	return cloud.ServerOther
}

// Busy returns the operation in progress on the server: its status if that names one, else its task; empty when there is none.
func (r *ServerRow) Busy() string {
	switch state := r.State(); {
	case state != cloud.ServerActive && state != cloud.ServerOther:
		return ""
	case slices.Contains(busyStatuses, r.Status):
		return r.Status
	}
	return r.TaskState
}

// NodeAddresses returns the server's addresses, sorted and without duplicates, its name, and the host name in its metadata. The addresses on
// its networks and internal have the type InternalIP; its floating IPs, external, and the addresses that Nova calls accessIPv4 and
// accessIPv6 have the type ExternalIP, as the cloud-controller-manager reports them. It leaves out addresses that are not IP addresses.
func (r *ServerRow) NodeAddresses(internal []string, external string) []corev1.NodeAddress {
	seen := map[corev1.NodeAddress]bool{}
	add := func(kind corev1.NodeAddressType, text string) {
		if net.ParseIP(text) != nil {
			seen[corev1.NodeAddress{Type: kind, Address: text}] = true
		}
	}
	for _, list := range r.Addresses {
		for _, a := range list {
			if a.Type == "floating" {
				add(corev1.NodeExternalIP, a.Address)
			} else {
				add(corev1.NodeInternalIP, a.Address)
			}
		}
	}
	for _, a := range internal {
		add(corev1.NodeInternalIP, a)
	}
	for _, a := range []string{external, r.AccessIPv4, r.AccessIPv6} {
		add(corev1.NodeExternalIP, a)
	}
	out := slices.SortedFunc(maps.Keys(seen), func(a, b corev1.NodeAddress) int {
		// InternalIP comes before ExternalIP.
		return cmp.Or(-cmp.Compare(a.Type, b.Type), cmp.Compare(a.Address, b.Address))
	})
	for _, name := range slices.Compact([]string{r.Name, r.Metadata.Hostname}) {
		if name != "" {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
		}
	}
	return out
}

// endingVolumes returns the IDs of the volumes that are deleted with the server.
func (r *ServerRow) endingVolumes() (ids []string) {
	for _, v := range r.Volumes {
		if v.EndsWithServer {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// inFlux reports whether the server is in a state that it leaves without another request.
func (r *ServerRow) inFlux() bool {
	return r.Status == statusBuild || r.TaskState == taskDeleting || r.State() == cloud.ServerStarting
}

func (r *ServerRow) same(o *ServerRow) bool {
	return r.Status == o.Status && r.TaskState == o.TaskState && r.PowerState == o.PowerState && r.Name == o.Name && r.HostID == o.HostID &&
		r.AccessIPv4 == o.AccessIPv4 && r.AccessIPv6 == o.AccessIPv6 && r.Zone == o.Zone && r.Fault == o.Fault && r.Metadata == o.Metadata &&
		maps.EqualFunc(r.Addresses, o.Addresses, slices.Equal) && slices.Equal(r.Volumes, o.Volumes)
}
