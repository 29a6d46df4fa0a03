package membership

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
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
	deployments Table[*v1alpha1.MachineDeployment]
	sets        Table[*v1alpha1.MachineSet]
	groupIDs    Table[string]
	setsByUID   Table[*v1alpha1.MachineSet]
	// members is keyed by the UID of the Machine, nodes by the name of the Node.
	members Table[*Member]
	nodes   Table[joined]
	// lists holds the members of a set, by the set's UID.
	lists Table[list]
	links [relations]Table[[]string]
	// edit made this version, and may not change it any more.
	edit *Edit
	// bareSets reports whether a MachineSet without a MachineDeployment may be a node group.
	bareSets bool
}

// relation is a field by which an index finds objects. Machines and sets are found by UID, Nodes by name.
type relation int

const (
	// machinesByServer is keyed by server ID, machinesByKey by the namespace/name of the Machine, and machinesByName by the name
	// that its Node has or will have.
	machinesByServer relation = iota
	machinesByKey
	machinesByName
	// nodesByServer is keyed by server ID. The other two are keyed by what the Node's metadata names: the namespace/name of a
	// Machine, or its UID.
	nodesByServer
	nodesByKey
	nodesByOwner
	// nodesOf is keyed by the UID of the Machine to which the Nodes belong, setsOf by the UID of the sets' deployment.
	nodesOf
	setsOf
	relations
)

// NewIndex returns an empty index. The provider parses provider IDs and provider specs.
func NewIndex(provider cloud.Provider, bareSets bool) *Index {
	return &Index{identities: identities{provider}, bareSets: bareSets}
}

// joined is a Node and the UID of the Machine that it belongs to. The UID is empty when the Node belongs to no Machine.
type joined struct {
	node    *corev1.Node
	machine string
}

// of returns what has the key in a relation, sorted.
func (ix *Index) of(r relation, key string) []string { return ix.links[r].Get(key) }

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
	uids := ix.of(setsOf, string(o.GetUID()))
	sets := make([]*v1alpha1.MachineSet, 0, len(uids))
	for _, uid := range uids {
		sets = append(sets, ix.setsByUID.Get(uid))
	}
	return sets
}

// list is the members of one set, sorted by compare. Only its edit may change it in place.
type list struct {
	members []*Member
	edit    *Edit
}

// MembersOf returns the members of the given sets, sorted by the name of their Machine.
func (ix *Index) MembersOf(sets ...*v1alpha1.MachineSet) []*Member {
	if len(sets) == 1 {
		return ix.lists.Get(string(sets[0].UID)).members
	}
	var lists [][]*Member
	for _, s := range sets {
		if l := ix.lists.Get(string(s.UID)).members; len(l) > 0 {
			lists = append(lists, l)
		}
	}
	// The names of a set's Machines begin alike, so the lists in the order of their first members are mostly sorted already.
	slices.SortFunc(lists, func(a, b []*Member) int { return Compare(a[0], b[0]) })
	all := slices.Concat(lists...)
	slices.SortFunc(all, Compare)
	return all
}

// Compare orders members by name, namespace and UID of their Machine.
func Compare(a, b *Member) int {
	if a.Machine.Name != b.Machine.Name {
		return strings.Compare(a.Machine.Name, b.Machine.Name)
	}
	return cmp.Or(strings.Compare(a.Machine.Namespace, b.Machine.Namespace), cmp.Compare(a.Machine.UID, b.Machine.UID))
}

// AwaitsNode reports whether a Machine names a Node that the cache does not have.
func (ix *Index) AwaitsNode(m *Member) bool {
	ref := m.Machine.Status.NodeRef
	return m.Node == nil && ref != nil && ix.nodes.Get(ref.Name).node == nil
}
