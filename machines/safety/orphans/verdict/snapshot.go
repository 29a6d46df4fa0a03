package verdict

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Settings are decisions of the operator.
type Settings struct {
	// ReportOnly makes rounds find and report orphans without changing anything.
	ReportOnly bool
	// Age is how long a Machine must have been gone before its resources and its Node may be deleted, and how long the Node must not
	// have been Ready.
	Age time.Duration
}

// Snapshot is the input of one round. The resources were read before the Machines, so the list of Machines contains the
// Machine of each resource.
type Snapshot struct {
	Settings
	Now time.Time
	// Stale is why the reads are missing or may be out of date, for example because an API server does not answer. The text is for
	// operators; empty means that the reads are complete and up to date.
	Stale string
	// Defined is the creation time of the youngest of the CRDs whose deletion deletes Machines.
	Defined time.Time
	// Machines is a live list of the Machines of all namespaces.
	Machines []Machine
	Projects []cloud.Project
	Nodes    []Node
	// Sets and Deployments are the names of all MachineSets and MachineDeployments.
	Sets, Deployments []string
	Ends              Ends
}

// Machine is the part of a Machine that a verdict depends on.
type Machine struct {
	UID types.UID
	// Name is namespace/name.
	Name string
	// Server is the server that spec.providerID names; empty when it names no server.
	Server cloud.ServerID
	// ServerName is the name of the Machine's server. It is set before the server exists.
	ServerName string
	// NodeName is the name in status.nodeRef; empty before the Node has joined.
	NodeName string
}

// Node is the part of a Node that a verdict depends on.
type Node struct {
	Name string
	UID  types.UID
	// ProviderID is the Node's provider ID. Server is the server that ProviderID names; empty when ProviderID names no server
	// of a known cloud.
	ProviderID string
	Server     cloud.ServerID
	// OwnedBy is drover's label with the UID of a Machine. Machine is drover's annotation with the Machine's namespace/name.
	// Either may be empty.
	OwnedBy types.UID
	Machine string
	Created time.Time
	// Ready reports whether the Node's condition Ready is True. Changed is the last transition of that condition; zero means
	// that the Node has no condition Ready.
	Ready   bool
	Changed time.Time
	// ControlPlane is the label or taint that makes the Node part of the control plane; empty when there is none.
	ControlPlane string
	// LabeledControlPlane reports whether a label makes the Node part of the control plane. A kubelet cannot set such a label.
	LabeledControlPlane bool
	// Expelled reports whether the Node has the taint of a Node without a Machine.
	Expelled bool
	// Finalizers reports whether the Node has finalizers of other controllers.
	Finalizers bool
	// Unmanaged reports whether the Node has the annotation unmanaged.
	Unmanaged bool
}

// hasLabels reports whether the Node has drover's label or annotation.
func (n *Node) hasLabels() bool { return n.OwnedBy != "" || n.Machine != "" }

// worked reports whether the Node is Ready, or was Ready within the given time: a kubelet that misses one report still runs
// its pods. A Node that is younger than the given time and has no condition Ready counts as working.
func (n *Node) worked(now time.Time, while time.Duration) bool {
	since := n.Changed
	if since.IsZero() {
		since = n.Created
	}
	return n.Ready || now.Sub(since) < while
}
