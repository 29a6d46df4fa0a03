package verdict

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Settings are decisions of the operator.
type Settings struct {
	// ReportOnly makes rounds find and report orphans, and change nothing.
	ReportOnly bool
	// Age is how old a resource or Node must be before it may be deleted.
	Age time.Duration
	// MaxPerPass is how many resources and Nodes one round may delete.
	MaxPerPass int
	// DrainTimeout is how long the pods of an orphan's Node are evicted under their disruption budgets; 0 or less: not at all.
	DrainTimeout time.Duration
}

// Snapshot is the input of one round. The resources were read before the Machines, so the list of Machines includes the Machine
// of each resource.
type Snapshot struct {
	Settings
	Now time.Time
	// Stale is why the reads may be out of date, for people, such as an API server that does not answer. Empty: they are not.
	Stale string
	// ClusterID is the ID in the owner tags of the resources.
	ClusterID string
	// Confirmed reports whether an operator has confirmed that all orphans may be deleted, however many.
	Confirmed bool
	// Defined is the creation time of the youngest definition whose deletion deletes Machines.
	Defined  time.Time
	Machines Machines
	Projects []cloud.Project
	Nodes    []Node
	History  History
}

// Machines is a live list of the Machines of all namespaces.
type Machines struct {
	// Failed is why there is no complete list. Empty: there is one.
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
	// Server is the server that spec.providerID names; empty when it names none.
	Server cloud.ServerID
	// ServerName is the name of the Machine's server, which is set before there is a server.
	ServerName string
	// NodeName is the name in status.nodeRef; empty before the Node has joined.
	NodeName string
}

// Node is the part of a Node that a verdict depends on.
type Node struct {
	Name string
	UID  types.UID
	// ProviderID is the Node's provider ID, Server the server that it names; empty: none of a known cloud.
	ProviderID string
	Server     cloud.ServerID
	// OwnedBy and Machine are drover's label and annotation: the UID of a Machine, and its namespace/name. Either may be empty.
	OwnedBy types.UID
	Machine string
	Created time.Time
	// Ready reports whether the Node's condition Ready is True. Changed is the last transition of condition Ready; zero: there is no such
	// condition.
	Ready   bool
	Changed time.Time
	// ControlPlane names the label or taint of the control plane; empty: it has none.
	ControlPlane string
	// Finalizers reports whether the Node has finalizers of other controllers.
	Finalizers bool
	// Unmanaged reports whether the Node has the annotation unmanaged.
	Unmanaged bool
}

// hasLabels reports whether the Node has drover's label or annotation.
func (n *Node) hasLabels() bool { return n.OwnedBy != "" || n.Machine != "" }

// worked reports whether the Node is Ready, or was within the given time: a kubelet that misses one report still runs its pods.
// A Node that is younger than that and has no condition Ready counts as working.
func (n *Node) worked(now time.Time, while time.Duration) bool {
	since := n.Changed
	if since.IsZero() {
		since = n.Created
	}
	return n.Ready || now.Sub(since) < while
}

// History is what this process knows of the past.
type History struct {
	// Since is since when this process is the leader, and sees every Machine. Zero: not known.
	Since time.Time
	// Seen are the Machines that this process has seen, existing or not.
	Seen map[types.UID]Sighting
}

// Sighting is the last known state of a Machine.
type Sighting struct {
	// Leaving reports whether it was being deleted, or the API server reported its deletion.
	Leaving bool
	// Exists reports whether the watch still shows it. Then a list that lacks it is not trusted.
	Exists bool
}

// Span is a span of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// clockMargin is how far the clocks of the cloud and of the cluster may differ. With a difference, more resources count as
// created without a leader, never fewer.
const clockMargin = 2 * time.Minute

// Contains reports whether a time lies inside the span, or so close to one of its ends that differing clocks may have moved it
// out.
func (s Span) Contains(t time.Time) bool {
	return t.After(s.From.Add(-clockMargin)) && t.Before(s.To.Add(clockMargin))
}

// Matters reports whether a span without a leader is so long that a resource may have been created in it by a drover which the
// cluster does not know. Taking over the lease of a dead process takes no longer than a minute.
func Matters(s Span) bool { return s.To.Sub(s.From) > time.Minute }
