package autoscaler

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/proto"
)

// View holds the data from which one loop of the autoscaler decides.
type View struct {
	Now    time.Time
	Groups []GroupView
	Nodes  []NodeView
	// Pending are the pods for which the scheduler found no node.
	Pending []*corev1.Pod
}

// GroupView is one group as the provider describes it.
type GroupView struct {
	Group
	Target    int
	Instances []Instance
	// Template is a node as the group would create it, or nil if it is unknown.
	Template *corev1.Node
	// Provision is how long an instance may take to become a node.
	Provision time.Duration
}

// NodeView is one node of the cluster with its pods.
type NodeView struct {
	*corev1.Node
	// Group is the ID of the node's group; empty when the node has none. Min is the group's minimum size in the response that
	// named the group.
	Group string
	Min   int
	// Startup is how long the node may be unready after its registration. Taints are the keys of startup taints that the
	// autoscaler's flags list: see [Options].StartupTaints. GPULabel is the provider's label of nodes with a GPU.
	Startup  time.Duration
	Taints   []string
	GPULabel string
	Pods     []*corev1.Pod
}

// Settings are the options of a group: those of the provider, or the values of the autoscaler's flags when the provider
// returns no options.
type Settings struct {
	Threshold                  float64
	UnneededTime, UnreadyTime  time.Duration
	ProvisionTime, StartupTime time.Duration
	// ZeroOrMax is true when the group scales only between zero and its maximum.
	ZeroOrMax bool
}

func (n *NodeView) ready() bool { return readyNode(n.Node, n.Taints, n.GPULabel) }

// unready reports whether the node is not ready although it registered too long ago to be starting.
func (n *NodeView) unready(now time.Time) bool {
	return !n.ready() && now.Sub(n.CreationTimestamp.Time) >= n.Startup
}

// notStarted reports whether the node is not ready because it is new.
func (n *NodeView) notStarted(now time.Time) bool {
	return !n.ready() && !n.unready(now) && !hasTaint(n.Node, TaintToBeDeleted)
}

// readiness counts a group's registered nodes.
type readiness struct {
	registered, ready, notStarted, unready, deleted int
}

func (v *View) readiness(g *GroupView) readiness {
	var r readiness
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Group != g.ID {
			continue
		}
		r.registered++
		switch {
		case hasTaint(n.Node, TaintToBeDeleted):
			r.deleted++
		case n.ready():
			r.ready++
		case n.unready(v.Now):
			r.unready++
		default:
			r.notStarted++
		}
	}
	return r
}

// unregistered returns the group's instances whose ID does not equal the provider ID of a node. It leaves out those that are
// being deleted or could not be created.
func (v *View) unregistered(g *GroupView) []Instance {
	known := map[string]bool{}
	for i := range v.Nodes {
		known[v.Nodes[i].Spec.ProviderID] = true
	}
	var out []Instance
	for _, i := range g.Instances {
		if i.State != proto.InstanceStatus_instanceDeleting && !i.failed() && !known[i.ID] {
			out = append(out, i)
		}
	}
	return out
}

// failed reports whether the cloud could not create the instance. An error counts only while the instance is being created.
func (i Instance) failed() bool {
	return i.State == proto.InstanceStatus_instanceCreating && i.Code != ""
}

func (g *GroupView) failed() []Instance {
	var out []Instance
	for _, i := range g.Instances {
		if i.failed() {
			out = append(out, i)
		}
	}
	return out
}

// Group is a node group as NodeGroups or NodeGroupForNode describes it.
type Group struct {
	ID       string
	Min, Max int
}

// Instance is one entry of NodeGroupNodes.
type Instance struct {
	ID    string
	State proto.InstanceStatus_InstanceState
	// Code and Message are empty when the instance has no error. An error without a code is ignored, as in cluster-autoscaler.
	Code, Message string
	OutOfResource bool
}
