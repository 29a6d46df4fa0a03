package verdict

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Reason is a reason why orphans are not collected.
type Reason string

// Reasons why a round makes no decision.
const (
	// Stale means that the reads may be out of date.
	Stale Reason = "Stale"
	// Unreadable means that there is no complete list of Machines.
	Unreadable Reason = "MachinesUnreadable"
	// NoMachines means that the list of Machines is empty although there are resources with the cluster's owner tags.
	NoMachines Reason = "NoMachines"
)

// Reasons that last until an operator confirms that orphans may be collected. Forgotten and Foreign stop the collection only in
// the project of the resource, because the resource proves nothing about other projects.
const (
	// Lost means that too many Machines vanished although no deletion was reported.
	Lost Reason = "MachinesLost"
	// Older means that the list of Machines is older than an earlier one.
	Older Reason = "MachinesOlder"
	// Forgotten means that a server, port or floating IP was created at a time when, according to the cluster's records, there
	// was no leader.
	Forgotten Reason = "CreatedUnderNobody"
	// Foreign means that a resource was created while this process was the leader, and that its Machine was never seen by
	// this process.
	Foreign Reason = "CreatedByAnother"
	// NewID means that the cluster ID is not the one for which orphans have been collected so far.
	NewID Reason = "NewClusterID"
)

// Reasons that end without a confirmation.
const (
	// TooMany means that too many of the tagged servers of a project, or of several, have no Machine.
	TooMany Reason = "TooManyServers"
	// TooManyNodes means that too many of the labeled Nodes of a project, or of several, have no Machine.
	TooManyNodes Reason = "TooManyNodes"
	// Held means that too many Machines of a project have lost their servers.
	Held Reason = "ProjectHeld"
	// Incomplete means that the resources of a project are not completely known.
	Incomplete Reason = "ProjectIncomplete"
)

// Reasons are all reasons, for metrics.
var Reasons = []Reason{Stale, Unreadable, NoMachines, Lost, Older, Forgotten, Foreign, NewID, TooMany, TooManyNodes, Held, Incomplete}

// Stop is a reason why orphans are not collected, with a message for operators.
type Stop struct {
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Project is the name of the project to which the reason applies; empty when the reason applies to all projects.
	Project string `json:"project,omitempty"`
}

// KindNode is the kind of an [Orphan] that is a Node. The other kinds are those of cloud.ResourceKind.
const KindNode = "node"

// Orphan is a resource or Node that has no Machine any more.
type Orphan struct {
	// Kind is server, port, floating IP or node. ID is the resource's ID, or the name of a Node.
	Kind, ID, Name string
	// Machine is the Machine's UID in the owner tag or label; it may be empty for a Node.
	Machine types.UID
	// Delete reports whether the orphan must be deleted now. If not, Why explains the reason to operators; otherwise Why is
	// empty.
	Delete bool
	Why    string
	// Stopped is the Reason of the [Stop] that prevents the deletion of the orphan; empty when no Stop applies.
	Stopped Reason
	// Resource is the resource, unless the orphan is a Node. Node is the orphan if it is a Node, or the Node of a server,
	// which is drained before the server is deleted. Node is nil when the orphan has none.
	Resource cloud.Resource
	Node     *Node
	// Expel reports whether the orphan is a Node that must get the taint [v1alpha1.TaintMachineGone] now.
	Expel bool
	// DrainUntil is when the drain of a server's Node must end; zero means that the drain has not begun.
	DrainUntil time.Time

	// sites are the projects of the orphan: the project of a resource, or the projects in which the server of a Node was
	// seen.
	sites []site
}

// Places returns the Place of each project in which the server of a Node was seen; empty when the server was never seen.
func (o *Orphan) Places() (places []string) {
	for _, s := range o.sites {
		places = append(places, s.Place)
	}
	return places
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

// BeingDeleted is the text in field Why of an orphan whose deletion was accepted shortly before.
const BeingDeleted = "it is being deleted, because it has no Machine"

// key identifies the orphan in the memory.
func (o *Orphan) key() string { return o.Kind + " " + o.ID }

// NodeMark is a Node whose annotation unmanaged is to be set or removed.
type NodeMark struct {
	Node *Node
	Set  bool
}

// Verdict is the result of a round.
type Verdict struct {
	// Judged reports whether the round made a decision. If it is false, Stops has the reasons.
	Judged bool
	// Stops are the reasons why nothing at all is collected. Skipped are the reasons why nothing is collected in some
	// projects, or why no Nodes are collected.
	Stops, Skipped []Stop
	// Orphans lists servers first, then floating IPs, then ports, then Nodes.
	Orphans []Orphan
	Marks   []NodeMark
}

// remedy ends each message that asks an operator for a confirmation.
const remedy = `. If these have no Machine any more and may be deleted, set the annotation ` + v1alpha1.AnnotationCollect + `: "yes" on the ConfigMap with the cluster ID, and remove it afterwards`

// Judge decides about all resources and Nodes without a Machine.
func Judge(s *Snapshot, before Memory) (Verdict, Memory) {
	j := &judgement{Snapshot: s, before: before, memory: before.next(), stopped: map[site]Stop{}}
	if stop := j.unfit(); stop.Reason != "" {
		return Verdict{Stops: []Stop{stop}}, j.memory
	}
	j.verdict.Judged = true
	j.index()
	j.confirm()
	j.compareMachines()
	j.findResources()
	j.compareResources()
	j.findNodes()
	j.acceptClusterID()
	j.decide()
	return j.verdict, j.memory
}

// unfit returns why no decision can be made; its Reason is empty when a decision can be made.
func (j *judgement) unfit() Stop {
	switch {
	case j.Stale != "":
		return Stop{Reason: Stale, Message: j.Stale}
	case j.Machines.Failed != "":
		return Stop{Reason: Unreadable, Message: "the Machines cannot be listed: " + j.Machines.Failed}
	case len(j.Machines.All) == 0 && j.anythingMarked():
		return Stop{Reason: NoMachines, Message: "the list of Machines is empty, and there are resources with the owner tags of this cluster: no orphan is deleted while there is no Machine, even if an operator confirms it"}
	}
	return Stop{}
}

func (j *judgement) anythingMarked() bool {
	for i := range j.Projects {
		if len(j.Projects[i].Resources) > 0 {
			return true
		}
	}
	for i := range j.Nodes {
		if j.Nodes[i].hasLabels() {
			return true
		}
	}
	return false
}

// confirm applies an operator's confirmation by dropping all holds.
func (j *judgement) confirm() {
	if j.Confirmed {
		j.memory.Stored = Stored{ClusterID: j.ClusterID}
		j.memory.Lost = map[types.UID]time.Time{}
	}
}

// hold records why no orphan at all is collected until an operator confirms it. It keeps a reason that is recorded already.
func (j *judgement) hold(reason Reason, format string, args ...any) {
	if j.memory.Stored.Hold.Reason == "" && !j.Confirmed {
		j.memory.Stored.Hold = Stop{Reason: reason, Message: fmt.Sprintf(format, args...) + remedy}
	}
}
