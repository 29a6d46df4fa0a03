package verdict

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// Settings are what an operator decides.
type Settings struct {
	// ReportOnly: orphans are found and shown, and nothing is changed.
	ReportOnly bool
	// Age is how old a resource or Node must be before it may be deleted.
	Age time.Duration
	// MaxPerPass is how many resources and Nodes one pass may delete.
	MaxPerPass int
	// DrainTimeout is how long the pods of an orphan's Node are evicted under their disruption budgets; 0 or less: not at all.
	DrainTimeout time.Duration
}

// Snapshot is what one pass has read. The resources were read before the Machines: whatever is made for a Machine is younger than
// the Machine itself.
type Snapshot struct {
	Settings
	Now time.Time
	// Stale says, for people, why nothing that was read may be believed, such as an API server that does not answer. Empty: it may.
	Stale string
	// ClusterID is the ID in the marks of the resources.
	ClusterID string
	// Confirmed: an operator has said that what has no Machine may be deleted, however much it is.
	Confirmed bool
	// Defined is when the youngest of the definitions with which Machines go was made.
	Defined  time.Time
	Machines Machines
	Projects []cloud.Project
	Nodes    []Node
	History  History
}

// Machines is a live list of the Machines of all namespaces.
type Machines struct {
	// Failed says why there is no complete list. Empty: there is one.
	Failed string
	// Version is the resource version of the list.
	Version string
	All     []Machine
}

// Machine is what a verdict depends on of a Machine.
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

// Node is what a verdict depends on of a Node.
type Node struct {
	Name string
	UID  types.UID
	// ProviderID is the Node's, Server is the server that it names; empty: none of a known cloud.
	ProviderID string
	Server     cloud.ServerID
	// OwnedBy and Machine are drover's marks: the UID of a Machine, and its namespace/name. Either may be empty.
	OwnedBy types.UID
	Machine string
	Created time.Time
	// Ready: its kubelet says so. Changed is when that changed last; zero: it has never been said.
	Ready   bool
	Changed time.Time
	// ControlPlane names what makes it a Node of the control plane; empty: nothing.
	ControlPlane string
	// Finalizers: somebody waits for its end.
	Finalizers bool
	// Unmanaged: it is marked as nobody's.
	Unmanaged bool
}

// isMarked reports whether the Node has one of drover's marks.
func (n *Node) isMarked() bool { return n.OwnedBy != "" || n.Machine != "" }

// worked reports whether the Node is Ready, or was within the last while: a kubelet that misses one report still has its pods. A Node
// of which nothing is known works while it is younger than that.
func (n *Node) worked(now time.Time, while time.Duration) bool {
	since := n.Changed
	if since.IsZero() {
		since = n.Created
	}
	return n.Ready || now.Sub(since) < while
}

// History is what this process knows of the past.
type History struct {
	// Since is from when on this process has led, and has seen every Machine. Zero: it does not know.
	Since time.Time
	// Seen are the Machines that this process has seen, living or not.
	Seen map[types.UID]Sighting
}

// Sighting is how a Machine was seen last.
type Sighting struct {
	// Leaving: it was being deleted, or the API server told of its end.
	Leaving bool
	// Exists: the watch still shows it. A list that lacks it is not believed about it.
	Exists bool
}

// Span is a span of time.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// clockMargin is how far the clocks of the cloud and of the cluster may differ. Where they do, more counts as created while
// nobody led, never less.
const clockMargin = 2 * time.Minute

// Contains reports whether a time lies inside, or so close to one of the ends that differing clocks may have moved it out.
func (s Span) Contains(t time.Time) bool {
	return t.After(s.From.Add(-clockMargin)) && t.Before(s.To.Add(clockMargin))
}

// Matters reports whether a span in which nobody led is so long that something may have been created in it that no leader made. It
// takes no longer than a minute to take over the lease of a process that has died.
func Matters(s Span) bool { return s.To.Sub(s.From) > time.Minute }
