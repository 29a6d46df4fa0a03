package membership

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/nodegroup/model/persistent"
)

// Index finds the Machine that a node belongs to, and the Machines of a node group. It is immutable: Apply returns the next
// version.
//
// The answers of an Index depend only on the objects, not on the order of their events: when several objects claim the same
// node, their fields decide.
type Index struct {
	identities
	// deployments and sets are keyed by namespace/name. groupIDs holds the group ids of deployments by UID, and setsByUID the
	// sets by UID.
	deployments persistent.Map[*v1alpha1.MachineDeployment]
	sets        persistent.Map[*v1alpha1.MachineSet]
	groupIDs    persistent.Map[string]
	setsByUID   persistent.Map[*v1alpha1.MachineSet]
	// setsOf holds the UIDs of a deployment's sets, by the deployment's UID. lists holds the members of a set, by the set's
	// UID.
	setsOf persistent.Map[persistent.Names]
	lists  persistent.Map[Members]

	// members is keyed by the UID of the Machine, nodes by the name of the Node.
	members persistent.Map[*Member]
	nodes   persistent.Map[joined]
	// nodesOf holds the names of the Nodes of a Machine, by the Machine's UID.
	nodesOf persistent.Map[persistent.Names]

	machineClaims machineClaims
	nodeClaims    nodeClaims
	// bareSets reports whether a MachineSet without a MachineDeployment may be a node group.
	bareSets bool
}

// NewIndex returns an empty index. The provider parses provider IDs and provider specs.
func NewIndex(provider cloud.Provider, bareSets bool) *Index {
	return &Index{identities: identities{provider}, bareSets: bareSets}
}

// joined is a Node and the UID of the Machine that it belongs to. The UID is empty when the Node belongs to no Machine.
type joined struct {
	node    *corev1.Node
	machine string
}

// seal makes this version of the index immutable.
func (ix *Index) seal() {
	ix.deployments.Seal()
	ix.sets.Seal()
	ix.groupIDs.Seal()
	ix.setsByUID.Seal()
	ix.setsOf.Seal()
	ix.lists.Seal()
	ix.members.Seal()
	ix.nodes.Seal()
	ix.nodesOf.Seal()
	ix.machineClaims.seal()
	ix.nodeClaims.seal()
}

// keyOf returns namespace/name of an object.
func keyOf(o Object) string { return o.GetNamespace() + "/" + o.GetName() }

// parentOf returns the UID of an object's controller; empty when the object has no controller.
func parentOf(o metav1.Object) types.UID {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID
	}
	return ""
}

// Member returns the member whose Machine has the UID; nil when there is none.
func (ix *Index) Member(uid types.UID) *Member { return ix.members.Get(string(uid)) }

// GroupOf returns the ID of the node group that a Machine belongs to, or "" when it belongs to none.
func (ix *Index) GroupOf(m *Member) string { return ix.groupOfSet(ix.setsByUID.Get(string(m.set))) }

func (ix *Index) groupOfSet(s *v1alpha1.MachineSet) string {
	if s == nil {
		return ""
	}
	parent := parentOf(s)
	switch {
	case parent != "":
		return ix.groupIDs.Get(string(parent))
	case ix.bareSets:
		return setID(s.Namespace, s.Name)
	}
	return ""
}

// Owner returns the object that a group id refers to; nil when there is none.
func (ix *Index) Owner(id string) *Owner {
	kind, key := splitID(id)
	if kind == deploymentKind {
		if d := ix.deployments.Get(key); d != nil {
			return deploymentOwner(d)
		}
		return nil
	}
	if s := ix.sets.Get(key); s != nil && ix.groupOfSet(s) == id {
		return setOwner(s)
	}
	return nil
}

// SetsIn returns the MachineSets of a group.
func (ix *Index) SetsIn(o *Owner) []*v1alpha1.MachineSet {
	if s, ok := o.Object.(*v1alpha1.MachineSet); ok {
		return []*v1alpha1.MachineSet{s}
	}
	uids := ix.setsOf.Get(string(o.GetUID()))
	sets := make([]*v1alpha1.MachineSet, 0, len(uids))
	for _, uid := range uids {
		sets = append(sets, ix.setsByUID.Get(uid))
	}
	return sets
}

// MembersOf returns the members of the given sets.
func (ix *Index) MembersOf(sets ...*v1alpha1.MachineSet) Members {
	lists := make([]Members, 0, len(sets))
	for _, s := range sets {
		lists = append(lists, ix.lists.Get(string(s.UID)))
	}
	return merge(lists)
}

// AwaitsNode reports whether a Machine names a Node that the cache does not have.
func (ix *Index) AwaitsNode(m *Member) bool {
	ref := m.Machine.Status.NodeRef
	return m.Node == nil && ref != nil && ix.nodes.Get(ref.Name).node == nil
}
