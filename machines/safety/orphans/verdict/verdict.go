package verdict

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

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
)

// Reasons are all reasons, for metrics.
var Reasons = []Reason{Stale, Incomplete, Unconfirmed}

// Stop is a reason why orphans are not collected, with a message for operators.
type Stop struct {
	Reason  Reason
	Message string
}

// KindNode is the kind of an [Orphan] that is a Node. The other kinds are those of cloud.ResourceKind.
const KindNode = "node"

// Orphan is a resource or Node that has no Machine any more.
type Orphan struct {
	// Kind is server, port, floating IP or node. ID is the resource's ID, or the name of a Node.
	Kind, ID, Name string
	// Machine is the Machine's UID in the owner tag or label; it may be empty for a Node.
	Machine types.UID
	// Delete reports whether the orphan must be deleted. Why explains to operators what becomes of the orphan.
	Delete bool
	Why    string
	// Unconfirmed reports whether the deletion needs a person's confirmation. Blocked reports whether a confirmation cannot help.
	Unconfirmed, Blocked bool
	// End is the end of the Machine; only its UID is set when the end is not known.
	End End
	// Resource is the resource, unless the orphan is a Node. Node is the orphan if it is a Node, or the Node of a server,
	// which is drained before the server is deleted. Node is nil when the orphan has none.
	Resource cloud.Resource
	Node     *Node
	// Expel reports whether the orphan is a Node that must get the taint [v1alpha1.TaintMachineGone] now.
	Expel bool
}

// MayBelongTo reports whether a Machine has, or may have, the server or the Node of an orphan. It compares the UID and the
// name in owner tags and labels, the server that the Machine names, and the names of the Machine's server and Node.
func (o *Orphan) MayBelongTo(m *Machine) bool {
	named := func(name string) bool { return name != "" && (m.ServerName == name || m.NodeName == name) }
	has := func(uid types.UID, server cloud.ServerID) bool {
		return uid != "" && m.UID == uid || server != "" && m.Server == server
	}
	if has(o.Machine, o.Resource.Key) || named(o.Resource.Name) {
		return true
	}
	return o.Node != nil && (has(o.Node.OwnedBy, o.Node.Server) || named(o.Node.Name) || m.Name == o.Node.Machine)
}

// BeingDeleted is the text in field Why of an orphan that is deleted now, or in the next rounds.
const BeingDeleted = "it is being deleted, because it has no Machine"

// NodeMark is a Node whose annotation unmanaged is to be set or removed.
type NodeMark struct {
	Node *Node
	Set  bool
}

// Verdict is the result of a round.
type Verdict struct {
	// Judged reports whether the round made a decision. If it is false, Stops has the reason.
	Judged bool
	// Stops are the reasons why nothing, or not everything, is collected.
	Stops []Stop
	// Orphans lists servers first, then floating IPs, then ports, then Nodes.
	Orphans []Orphan
	Marks   []NodeMark
	// Over are the ends that have no meaning any more. Left are the Machines that have a resource or Node left.
	Over []types.UID
	Left map[types.UID]bool
}

// Judge decides about all resources and Nodes without a Machine.
func Judge(s *Snapshot) Verdict {
	if s.Stale != "" {
		return Verdict{Stops: []Stop{{Stale, s.Stale}}}
	}
	j := &judgement{Snapshot: s, verdict: Verdict{Judged: true}}
	j.index()
	j.findResources()
	j.findNodes()
	j.decide()
	j.verdict.Over, j.verdict.Left = j.over(), j.left
	return j.verdict
}
