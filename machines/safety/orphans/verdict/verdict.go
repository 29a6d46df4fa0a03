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

// Reasons why a round makes no decision.
const (
	// Stale means that the reads may be out of date.
	Stale Reason = "Stale"
	// Unreadable means that there is no complete list of the Machines.
	Unreadable Reason = "MachinesUnreadable"
	// NoMachines means that the list of Machines is empty, and there are resources with the cluster's owner tags.
	NoMachines Reason = "NoMachines"
)

// Reasons that remain until an operator confirms that orphans may be collected. Forgotten and Foreign apply only to the project
// of the resource, because each such resource is evidence only in its own project.
const (
	// Lost means that too many Machines vanished although no deletion was reported.
	Lost Reason = "MachinesLost"
	// Older means that the list of Machines is older than an earlier one.
	Older Reason = "MachinesOlder"
	// Forgotten means that a server, port or floating IP was created when, as far as the cluster knows, there was no leader.
	Forgotten Reason = "CreatedUnderNobody"
	// Foreign means that a resource was created while this process was the leader, for a Machine that it has never seen.
	Foreign Reason = "CreatedByAnother"
	// NewID means that the cluster ID differs from the one of the last round that was allowed to collect.
	NewID Reason = "NewClusterID"
)

// Reasons that end without a confirmation.
const (
	// TooMany means that too many of the tagged servers of a project, or of several, have no Machine.
	TooMany Reason = "TooManyServers"
	// TooManyNodes means that too many of the labeled Nodes of a project, or of several, have no Machine.
	TooManyNodes Reason = "TooManyNodes"
	// Held means that the mass-deletion guard of a project holds vanished servers.
	Held Reason = "ProjectHeld"
	// Incomplete means that the resources of a project are not completely known.
	Incomplete Reason = "ProjectIncomplete"
)

// Reasons are all reasons, for metrics.
var Reasons = []Reason{Stale, Unreadable, NoMachines, Lost, Older, Forgotten, Foreign, NewID, TooMany, TooManyNodes, Held, Incomplete}

// Stop is a reason why orphans are not collected, with a message for people.
type Stop struct {
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Project is the name of the project to which the reason applies; empty: it applies to all.
	Project string `json:"project,omitempty"`
}

// KindNode is the kind of an [Orphan] that is a Node. The other kinds are those of cloud.ResourceKind.
const KindNode = "node"

// Orphan is a resource or Node that has no Machine any more.
type Orphan struct {
	// Kind is server, port, floating IP or node; ID is the name of a Node.
	Kind, ID, Name string
	// Machine is the UID in its owner tag or label; it may be empty for a Node.
	Machine types.UID
	// Delete reports whether the orphan is to be deleted now. Why explains, for people, why not; empty when it is.
	Delete bool
	Why    string
	// Stopped is the reason of a [Stop], when that is why the orphan is not deleted.
	Stopped Reason
	// Resource is set unless the orphan is a Node. Node is the Node itself, or the Node of a server, which is drained before
	// the server is deleted; nil: there is none.
	Resource cloud.Resource
	Node     *Node
	// DrainUntil is until when the Node of a server may be drained. Zero: its drain has not begun.
	DrainUntil time.Time

	// sites are the projects of the orphan: that of the resource, or those in which the server of the Node was seen.
	sites []site
}

// Places returns the Place of each project in which the server of a Node was seen; empty when it was never seen.
func (o *Orphan) Places() (places []string) {
	for _, s := range o.sites {
		places = append(places, s.Place)
	}
	return places
}

// MayBelongTo reports whether a Machine has, or may have, the server or the Node of an orphan: by the UID or the name in owner
// tags and labels, by the server that the Machine names, or by the names of its server and Node.
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

// NodeMark is a Node whose annotation unmanaged is to be set or removed.
type NodeMark struct {
	Node *Node
	Set  bool
}

// Verdict is the result of a round.
type Verdict struct {
	// Judged is false when the round made no decision: Stops has the reasons.
	Judged bool
	// Stops are why nothing at all is collected. Skipped are why nothing is collected in some projects, or why no Nodes are.
	Stops, Skipped []Stop
	// Orphans are servers, then floating IPs, then ports, then Nodes.
	Orphans []Orphan
	Marks   []NodeMark
}

// remedy ends the messages about what an operator must confirm.
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

// unfit returns why no decision can be made.
func (j *judgement) unfit() Stop {
	switch {
	case j.Stale != "":
		return Stop{Reason: Stale, Message: j.Stale}
	case j.Machines.Failed != "":
		return Stop{Reason: Unreadable, Message: "the Machines cannot be listed: " + j.Machines.Failed}
	case len(j.Machines.All) == 0 && j.anythingMarked():
		return Stop{Reason: NoMachines, Message: "the list of Machines is empty, and there are resources with the owner tags of this cluster: nothing is collected while there is no Machine, whatever an operator confirms"}
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

// confirm applies an operator's confirmation: it drops all holds.
func (j *judgement) confirm() {
	if j.Confirmed {
		j.memory.Stored = Stored{ClusterID: j.ClusterID}
		j.memory.Lost = map[types.UID]time.Time{}
	}
}

// hold records why nothing is collected before an operator confirms it. The first reason stays.
func (j *judgement) hold(reason Reason, format string, args ...any) {
	if j.memory.Stored.Hold.Reason == "" && !j.Confirmed {
		j.memory.Stored.Hold = Stop{Reason: reason, Message: fmt.Sprintf(format, args...) + remedy}
	}
}
