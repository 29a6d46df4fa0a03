package verdict

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
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

// Reason is a reason why orphans are not collected.
type Reason string

// The reasons.
const (
	// Stale means that the reads are missing or may be out of date.
	Stale Reason = "Stale"
	// Incomplete means that the resources of a project are not completely known.
	Incomplete Reason = "ProjectIncomplete"
	// Unconfirmed means that nothing proves that the Machine of an orphan has ended. A person can confirm it.
	Unconfirmed Reason = "Unconfirmed"
	// Ignored means that a person has confirmed something that does not need it.
	Ignored Reason = "ConfirmationIgnored"
)

// Reasons are all reasons, for metrics.
var Reasons = []Reason{Stale, Incomplete, Unconfirmed, Ignored}

// Stop is a reason why orphans are not collected, with a message for operators.
type Stop struct {
	Reason  Reason
	Message string
}

// KindNode is the kind of an [Orphan] that is a Node.
const KindNode = "node"

// Kinds are the kinds of orphans, in the order in which they are deleted.
var Kinds = []cloud.ResourceKind{cloud.ResourceServer, cloud.ResourceFloatingIP, cloud.ResourcePort, KindNode}

// Orphan is a resource or Node that has no Machine any more.
type Orphan struct {
	// Resource describes the orphan. For a Node it has the kind [KindNode], the Node's name as ID, and the UID of the Machine in the Node's
	// label, which may be empty.
	cloud.Resource
	// Node is the orphan if it is a Node, or the Node of a server, which is drained before the server is deleted. Node is nil when the
	// orphan has none.
	Node *Node
	// Delete reports whether the orphan must be deleted. Why explains to operators what becomes of the orphan.
	Delete bool
	Why    string
	// Unconfirmed reports whether the deletion needs a person's confirmation. Blocked reports whether a confirmation cannot help.
	Unconfirmed, Blocked bool
	// End is the end of the Machine; only its UID is set when the end is not known.
	End End
	// Expel reports whether the orphan is a Node that must get the taint [v1alpha1.TaintMachineGone] now.
	Expel bool
}

// BeingDeleted is the text in field Why of an orphan that is deleted now, or in the next rounds.
const BeingDeleted = "it is being deleted, because it has no Machine"

// Verdict is the result of a round.
type Verdict struct {
	// Judged reports whether the round made a decision. If it is false, Stops has the reason.
	Judged bool
	// Stops are the reasons why nothing, or not everything, is collected.
	Stops []Stop
	// Orphans are in the order of [Kinds].
	Orphans []Orphan
	// Marks are the Nodes to which the annotation unmanaged is to be added, or from which it is to be removed if they have it.
	Marks []*Node
	// Over are the ends that have no meaning any more. Left are the Machines that have a resource or Node left.
	Over []types.UID
	Left map[types.UID]bool
}

// judgement is the state of the decision in one round.
type judgement struct {
	*Snapshot
	Verdict
	// living holds the UIDs of the Machines that exist, their names, their servers, and the names of their servers and Nodes.
	living map[any]bool
	// listed holds the tagged servers that exist, their names, and the home of each.
	listed map[any]bool
	// nodes finds a Node by its name, by its server, and, if it has no server, by the UID in its label.
	nodes map[any]*Node
	// outlive is the number of Nodes that outlive their Machines.
	outlive int
}

// home is the project in which a Machine has its resources.
type home struct {
	place   string
	machine types.UID
}

// Judge decides about all resources and Nodes without a Machine.
func Judge(s *Snapshot) Verdict {
	if s.Stale != "" {
		return Verdict{Stops: []Stop{{Stale, s.Stale}}}
	}
	j := &judgement{
		Snapshot: s, Verdict: Verdict{Judged: true, Left: Left(s.Projects, s.Nodes)},
		living: make(map[any]bool, 4*len(s.Machines)), listed: map[any]bool{}, nodes: make(map[any]*Node, 2*len(s.Nodes)),
	}
	j.index()
	j.findResources()
	for i := range j.Nodes {
		j.findNode(&j.Nodes[i])
	}
	j.decide()
	j.Over = j.over()
	return j.Verdict
}

func (j *judgement) index() {
	for i := range j.Machines {
		m := &j.Machines[i]
		for _, key := range []any{m.UID, m.Name, m.Server, m.ServerName, m.NodeName} {
			j.living[key] = true
		}
	}
	delete(j.living, "")
	delete(j.living, cloud.ServerID(""))
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if j.nodes[n.Name] = n; n.Server != "" {
			j.nodes[n.Server] = n
		} else {
			j.nodes[n.OwnedBy] = n
		}
	}
	delete(j.nodes, types.UID(""))
	for i := range j.Projects {
		for k := range j.Projects[i].Resources {
			if r := &j.Projects[i].Resources[k]; r.Kind == cloud.ResourceServer {
				j.listed[r.Key], j.listed[r.Name], j.listed[home{r.Place, r.Machine}] = true, true, true
			}
		}
	}
}

// complete reports whether the absence of a server from all projects proves that the server is gone.
func (j *judgement) complete() bool {
	return len(j.Projects) > 0 && !slices.ContainsFunc(j.Projects, func(p cloud.Project) bool { return p.Unknown != "" })
}

// block sets why an orphan is not deleted, whatever is known about its Machine. An empty why changes nothing.
func (o *Orphan) block(why string) {
	if why != "" {
		o.Why, o.Unconfirmed, o.Blocked = why, false, true
	}
}

const remedy = " need a confirmation. To have them deleted, set the annotation " + v1alpha1.AnnotationCollect + " of this ConfigMap to "

// decide decides which orphans are deleted, and says which need a confirmation.
func (j *judgement) decide() {
	slices.SortStableFunc(j.Orphans, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), strings.Compare(a.ID, b.ID))
	})
	for i := range j.Orphans {
		o := &j.Orphans[i]
		// When so many Nodes outlive their Machines, the cause may be a mistake in what drover has read.
		o.Expel = o.Expel && j.outlive <= max(3, len(j.Nodes)/10)
		switch {
		case o.Unconfirmed:
			stop := Stop{Unconfirmed, "Nodes" + remedy + "their names"}
			if o.Kind != KindNode {
				project := Project(&o.Resource)
				stop.Message = "Orphans in " + project + remedy + "their IDs, the UIDs of their Machines, or " + project
			}
			if !slices.Contains(j.Stops, stop) {
				j.Stops = append(j.Stops, stop)
			}
		case o.Why != "":
		case j.ReportOnly:
			o.Why = "it is only reported (--orphans=report)"
		default:
			o.Delete, o.Why = true, BeingDeleted
		}
	}
}
