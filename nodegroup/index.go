package nodegroup

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// member is a Machine, and its Node when that has registered. It does not change.
type member struct {
	machine *v1alpha1.Machine
	// set is the UID of the MachineSet that it belongs to.
	set types.UID
	// node is its Node; of several the one with its own name.
	node *corev1.Node
	// providerID is the Node's, to the letter; empty while it has none, or one that another Machine's Node bears too.
	providerID string
	// known is what package rollout is told of it.
	known rollout.MachineFacts
	// place is what its spec asks the cloud for.
	place func() place
}

func newMember(m *v1alpha1.Machine) *member {
	return &member{
		machine: m, set: parentOf(m), known: rollout.Facts(m, 0, m.CreationTimestamp.Time),
		place: sync.OnceValue(func() place { return placeOf(m) }),
	}
}

// on is the member with that Node.
func (m *member) on(node *corev1.Node, providerID string) *member {
	next := *m
	next.node, next.providerID = node, providerID
	next.known.NodeRegistered = node != nil
	return &next
}

// facts tells package rollout what is known of the member.
func (m *member) facts() rollout.MachineFacts { return m.known }

// registered tells whether the autoscaler can know the member's Node: the Node bears a provider ID (CA-C41, C42).
func (m *member) registered() bool { return m.providerID != "" }

// joined is a Node, and the UID of the Machine that it belongs to; empty for a foreign one.
type joined struct {
	node    *corev1.Node
	machine string
}

// index finds the member that a node belongs to, and the members of a group. It does not change: revision makes the next.
//
// What it says follows from the objects alone, not from the order in which they came: of several that claim the same, one
// is chosen by what they are.
type index struct {
	// deployments and sets are by namespace/name; the ids of deployments' groups and the sets also by UID.
	deployments table[*v1alpha1.MachineDeployment]
	sets        table[*v1alpha1.MachineSet]
	groupIDs    table[string]
	setsByUID   table[*v1alpha1.MachineSet]
	// setsOf are the UIDs of the sets of a deployment's UID; rosters the Machines of a set's.
	setsOf  table[names]
	rosters table[roster]

	// members are by UID of their Machine, nodes by name.
	members table[*member]
	nodes   table[joined]
	// nodesOf are the names of the Nodes of a Machine's UID.
	nodesOf table[names]

	machineClaims, nodeClaims claims
	// bare: sets without a deployment are groups.
	bare bool
}

// claims say by what a thing can be found; the values are UIDs of Machines, or names of Nodes.
type claims struct {
	// servers are by last part of the provider ID, keys by namespace/name of the Machine, names by name of the Node, owners
	// by UID of the Machine.
	servers, keys, names, owners table[names]
}

// contradicts reports whether a provider ID names another server than the Machine's, or nothing that could be one.
func contradicts(m *member, providerID string) bool {
	known := m.machine.Spec.ProviderID
	return providerID != "" && known != nil && *known != "" && nodeServer(*known) != nodeServer(providerID)
}

// groupOf is the id of the group that a Machine belongs to; empty for one of none.
func (ix *index) groupOf(m *member) string { return ix.groupOfSet(ix.setsByUID.get(string(m.set))) }

func (ix *index) groupOfSet(s *v1alpha1.MachineSet) string {
	if s == nil {
		return ""
	}
	parent := metav1.GetControllerOfNoCopy(s)
	switch {
	case parent != nil:
		return ix.groupIDs.get(string(parent.UID))
	case ix.bare:
		return setID(s.Namespace, s.Name)
	}
	return ""
}

// ownerOf gives the object of a group's id, nil when it is gone.
func (ix *index) ownerOf(id string) *owner {
	kind, key := splitID(id)
	if kind == deploymentKind {
		if d := ix.deployments.get(key); d != nil {
			return deploymentOwner(d)
		}
		return nil
	}
	if s := ix.sets.get(key); s != nil && ix.groupOfSet(s) == id {
		return setOwner(s)
	}
	return nil
}

// rosterOf are the members of some sets.
func (ix *index) rosterOf(sets []*v1alpha1.MachineSet) roster {
	lists := make([]roster, 0, len(sets))
	for _, s := range sets {
		lists = append(lists, ix.rosters.get(string(s.UID)))
	}
	return merged(lists)
}

// setsIn are the sets of a group.
func (ix *index) setsIn(o *owner) []*v1alpha1.MachineSet {
	if s, ok := o.Object.(*v1alpha1.MachineSet); ok {
		return []*v1alpha1.MachineSet{s}
	}
	uids := ix.setsOf.get(string(o.GetUID()))
	list := make([]*v1alpha1.MachineSet, 0, len(uids))
	for _, uid := range uids {
		list = append(list, ix.setsByUID.get(uid))
	}
	return list
}
