package verdict

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Reason is why orphans are not collected.
type Reason string

// Reasons why a pass judges nothing.
const (
	// Stale: what was read may be out of date.
	Stale Reason = "Stale"
	// Unreadable: there is no complete list of the Machines.
	Unreadable Reason = "MachinesUnreadable"
	// NoMachines: the list of Machines is empty, and something has the cluster's marks.
	NoMachines Reason = "NoMachines"
)

// Reasons that stand until an operator confirms that orphans may be collected. Forgotten and Foreign count for the project of the
// resource alone: each one that a stranger has made is itself the evidence in its own project.
const (
	// Lost: too many Machines vanished although nothing told of their end.
	Lost Reason = "MachinesLost"
	// Older: the list of Machines is older than one before it.
	Older Reason = "MachinesOlder"
	// Forgotten: a server, port or floating IP was created when, by what the cluster remembers, nobody led.
	Forgotten Reason = "CreatedUnderNobody"
	// Foreign: one was created while this process led, for a Machine that it has never seen.
	Foreign Reason = "CreatedByAnother"
	// NewID: the cluster ID is another one than at the last pass that may have collected.
	NewID Reason = "NewClusterID"
)

// Reasons that end by themselves.
const (
	// TooMany: too many of the marked servers of a project, or of several, have no Machine.
	TooMany Reason = "TooManyServers"
	// TooManyNodes: too many of the marked Nodes of a project, or of several, have no Machine.
	TooManyNodes Reason = "TooManyNodes"
	// Held: the mass-deletion guard of a project holds something.
	Held Reason = "ProjectHeld"
	// Incomplete: the resources of a project are not completely known.
	Incomplete Reason = "ProjectIncomplete"
)

// Reasons are all reasons, for metrics.
var Reasons = []Reason{Stale, Unreadable, NoMachines, Lost, Older, Forgotten, Foreign, NewID, TooMany, TooManyNodes, Held, Incomplete}

// Stop is a reason why orphans are not collected, with a message for people.
type Stop struct {
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Project is the name of the project in which that is so; empty: it is so for all.
	Project string `json:"project,omitempty"`
}

// KindNode is the kind of an [Orphan] that is a Node. The others are those of cloud.ResourceKind.
const KindNode = "node"

// Orphan is something that has no Machine any more.
type Orphan struct {
	// Kind is server, port, floating IP or node; ID is the name of a Node.
	Kind, ID, Name string
	// Machine is the UID that its mark has; it may be empty for a Node.
	Machine types.UID
	// Delete: it is to be deleted now. Why says, for people, why not; empty when it is.
	Delete bool
	Why    string
	// Stopped is the reason why nothing of its kind is collected, when Why is that.
	Stopped Reason
	// Resource is set unless it is a Node. Node is the Node itself, or that of a server, which is drained before the server is
	// deleted; nil: there is none.
	Resource cloud.Resource
	Node     *Node
	// DrainUntil is until when the Node of a server may be drained. Zero: its drain has not begun.
	DrainUntil time.Time

	// sites are the projects that it belongs to: that of the resource, or those in which the server of the Node was seen.
	sites []site
}

// Places returns the Place of each project in which the server of a Node was seen; without any, it is not known where it was.
func (o *Orphan) Places() (places []string) {
	for _, s := range o.sites {
		places = append(places, s.Place)
	}
	return places
}

// MayBelongTo reports whether a Machine has the server or the Node of an orphan, or may have it: by the UID or the name in the marks,
// by the server that the Machine names, or by the names of its server and Node.
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

// BeingDeleted is the Why of an orphan whose deletion was accepted a short time ago.
const BeingDeleted = "is being deleted: it has no Machine"

// key identifies the orphan in memory.
func (o *Orphan) key() string { return o.Kind + " " + o.ID }

// NodeMark is a Node whose mark as nobody's is to be set or removed.
type NodeMark struct {
	Node *Node
	Set  bool
}

// Verdict is the result of a pass.
type Verdict struct {
	// Judged is false when the pass has found out nothing: Stops say why.
	Judged bool
	// Stops are why nothing at all is collected. Skipped are why nothing is collected in some projects, or no Nodes are.
	Stops, Skipped []Stop
	// Orphans are servers, then floating IPs, then ports, then Nodes.
	Orphans []Orphan
	Marks   []NodeMark
}

// remedy ends the messages about what an operator must confirm.
const remedy = `. If these have no Machine any more and may be deleted, set the annotation ` + v1alpha1.AnnotationCollect + `: "yes" on the ConfigMap of the cluster id, and take it off again afterwards`

// Judge decides about everything that has no Machine.
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

// unfit returns why nothing can be judged.
func (j *judgement) unfit() Stop {
	switch {
	case j.Stale != "":
		return Stop{Reason: Stale, Message: j.Stale}
	case j.Machines.Failed != "":
		return Stop{Reason: Unreadable, Message: "the Machines cannot be listed: " + j.Machines.Failed}
	case len(j.Machines.All) == 0 && j.anythingMarked():
		return Stop{Reason: NoMachines, Message: "the list of Machines is empty, and something has the marks of this cluster: nothing is collected while there is no Machine, whatever an operator confirms"}
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
		if j.Nodes[i].isMarked() {
			return true
		}
	}
	return false
}

// confirm applies an operator's confirmation: what was held is not held any more.
func (j *judgement) confirm() {
	if j.Confirmed {
		j.memory.Stored = Stored{ClusterID: j.ClusterID}
		j.memory.Lost = map[types.UID]time.Time{}
	}
}

// hold notes why nothing is collected before an operator confirms it. The first reason stays.
func (j *judgement) hold(reason Reason, format string, args ...any) {
	if j.memory.Stored.Hold.Reason == "" && !j.Confirmed {
		j.memory.Stored.Hold = Stop{Reason: reason, Message: fmt.Sprintf(format, args...) + remedy}
	}
}
