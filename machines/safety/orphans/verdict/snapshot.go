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
	// Age is how old a resource or Node must be before it may be deleted.
	Age time.Duration
	// MaxPerPass is how many resources and Nodes one round may delete.
	MaxPerPass int
	// DrainTimeout is how long the pods of an orphan's Node are evicted with respect for their disruption budgets. 0 or less
	// means that pods are not evicted.
	DrainTimeout time.Duration
}

// Snapshot is the input of one round. The resources were read before the Machines, so the list of Machines contains the
// Machine of each resource.
type Snapshot struct {
	Settings
	Now time.Time
	// Stale is why the reads may be out of date, for example because an API server does not answer. The text is for operators;
	// empty means that the reads are up to date.
	Stale string
	// ClusterID is the ID in the owner tags of the resources.
	ClusterID string
	// Confirmed reports whether an operator has confirmed that all orphans may be deleted, whatever their number.
	Confirmed bool
	// Defined is the creation time of the youngest of the CRDs whose deletion deletes Machines.
	Defined  time.Time
	Machines Machines
	Projects []cloud.Project
	Nodes    []Node
	// Sets and Deployments are the names of all MachineSets and MachineDeployments.
	Sets, Deployments []string
	History           History
}

// Machines is a live list of the Machines of all namespaces.
type Machines struct {
	// Failed is why the list is not complete; empty when it is complete.
	Failed string
	// Version is the resource version of the list.
	Version string
	All     []Machine
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

// History is what this process knows about the past.
type History struct {
	// Since is the time since which this process has been the leader and has seen every Machine; zero means that it is not
	// known.
	Since time.Time
	// Seen are the Machines that this process has seen, whether they still exist or not.
	Seen map[types.UID]Sighting
}

// Sighting is the last known state of a Machine.
type Sighting struct {
	// Leaving reports whether the Machine was being deleted, or the API server has reported its deletion.
	Leaving bool
	// Exists reports whether the watch still shows the Machine. If it does, a list without the Machine is not trusted.
	Exists bool
}

// Span is a span of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// clockMargin is how far the clocks of the cloud and of the cluster may differ. If they differ more, more resources count as
// created without a leader, never fewer.
const clockMargin = 2 * time.Minute

// Contains reports whether a time lies inside the span. Because clocks may differ, a time up to clockMargin before or after the
// span also counts as inside.
func (s Span) Contains(t time.Time) bool {
	return t.After(s.From.Add(-clockMargin)) && t.Before(s.To.Add(clockMargin))
}

// Matters reports whether a span without a known leader is so long that an unknown leader may have created a resource in it.
// Taking over the lease of a dead process takes no longer than a minute, so shorter spans do not matter.
func Matters(s Span) bool { return s.To.Sub(s.From) > time.Minute }
