package nodegroup

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// index finds the Machine that a node belongs to, and the Machines of a node group. It is immutable: apply makes the next one.
//
// Its answers follow from the objects alone, not from the order in which they came: of several objects that claim the same,
// one is chosen by what stands in them.
type index struct {
	// deployments and sets are by namespace/name; the ids of the deployments' groups and the sets also by UID.
	deployments table[*v1alpha1.MachineDeployment]
	sets        table[*v1alpha1.MachineSet]
	groupIDs    table[string]
	setsByUID   table[*v1alpha1.MachineSet]
	// setsOf are the UIDs of the sets of a deployment, by its UID; lists the members of a set, by its UID.
	setsOf table[names]
	lists  table[list]

	// members are by UID of their Machine, nodes by name.
	members table[*member]
	nodes   table[joined]
	// nodesOf are the names of the Nodes of a Machine, by its UID.
	nodesOf table[names]

	machineClaims machineClaims
	nodeClaims    nodeClaims
	// bareSets is set when a MachineSet without a MachineDeployment is a node group.
	bareSets bool
}

// newIndex returns the index of nothing.
func newIndex(bareSets bool) *index { return &index{bareSets: bareSets} }

// joined is a Node, and the UID of the Machine that it belongs to; empty for a foreign one.
type joined struct {
	node    *corev1.Node
	machine string
}

// seal ends the changes to this version of the index.
func (ix *index) seal() {
	ix.deployments.seal()
	ix.sets.seal()
	ix.groupIDs.seal()
	ix.setsByUID.seal()
	ix.setsOf.seal()
	ix.lists.seal()
	ix.members.seal()
	ix.nodes.seal()
	ix.nodesOf.seal()
	ix.machineClaims.seal()
	ix.nodeClaims.seal()
}

// keyOf returns namespace/name of an object.
func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// parentOf returns the UID of an object's controller; empty when it has none.
func parentOf(o metav1.Object) types.UID {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID
	}
	return ""
}

// member returns the member with that UID of its Machine; nil for none.
func (ix *index) member(uid types.UID) *member { return ix.members.get(string(uid)) }

// groupOf returns the id of the group that a member belongs to; empty for none.
func (ix *index) groupOf(m *member) string { return ix.groupOfSet(ix.setsByUID.get(string(m.set))) }

func (ix *index) groupOfSet(s *v1alpha1.MachineSet) string {
	if s == nil {
		return ""
	}
	parent := parentOf(s)
	switch {
	case parent != "":
		return ix.groupIDs.get(string(parent))
	case ix.bareSets:
		return setID(s.Namespace, s.Name)
	}
	return ""
}

// owner returns the object of a group's id; nil when there is none.
func (ix *index) owner(id string) *owner {
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

// setsIn returns the MachineSets of a group.
func (ix *index) setsIn(o *owner) []*v1alpha1.MachineSet {
	if s, ok := o.Object.(*v1alpha1.MachineSet); ok {
		return []*v1alpha1.MachineSet{s}
	}
	uids := ix.setsOf.get(string(o.GetUID()))
	sets := make([]*v1alpha1.MachineSet, 0, len(uids))
	for _, uid := range uids {
		sets = append(sets, ix.setsByUID.get(uid))
	}
	return sets
}

// membersOf returns the members of some sets.
func (ix *index) membersOf(sets ...*v1alpha1.MachineSet) list {
	lists := make([]list, 0, len(sets))
	for _, s := range sets {
		lists = append(lists, ix.lists.get(string(s.UID)))
	}
	return merge(lists)
}

// awaitsNode reports whether a Machine names a Node that the watch has not brought, or brings no more.
func (ix *index) awaitsNode(m *member) bool {
	ref := m.machine.Status.NodeRef
	return m.node == nil && ref != nil && ix.nodes.get(ref.Name).node == nil
}
