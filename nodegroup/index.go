package nodegroup

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// member is a Machine of a deployment, and its Node when that has registered.
type member struct {
	group   string
	machine *v1alpha1.Machine
	set     *v1alpha1.MachineSet
	node    *corev1.Node
}

// registered tells whether the autoscaler can know the member's Node: the Node bears a provider ID (CA-C41, C42).
func (m *member) registered() bool { return m.node != nil && m.node.Spec.ProviderID != "" }

// id is the member's instance ID: the Node's provider ID, to the letter, else a placeholder.
func (m *member) id() string {
	if m.registered() {
		return m.node.Spec.ProviderID
	}
	return placeholder{group: m.group, machine: m.machine.Name}.String()
}

// index finds the member that a node belongs to. It does not change once made.
type index struct {
	// groups holds the members of each group, by name of their Machine.
	groups map[string][]*member
	// sets holds the sets of each group.
	sets map[string][]*v1alpha1.MachineSet

	byServer map[string]*member
	byUID    map[types.UID]*member
	byKey    map[string]*member
	byNode   map[string]*member
}

func newIndex(o Objects) *index {
	ix := &index{
		groups:   make(map[string][]*member, len(o.Deployments)),
		sets:     make(map[string][]*v1alpha1.MachineSet, len(o.Deployments)),
		byServer: make(map[string]*member, len(o.Machines)),
		byUID:    make(map[types.UID]*member, len(o.Machines)),
		byKey:    make(map[string]*member, len(o.Machines)),
		byNode:   make(map[string]*member, len(o.Machines)),
	}
	ix.addMachines(o)
	for _, node := range o.Nodes {
		ix.addNode(node)
	}
	return ix
}

func (ix *index) addMachines(o Objects) {
	deployments := make(map[types.UID]string, len(o.Deployments))
	for _, d := range o.Deployments {
		deployments[d.UID] = ID(d.Namespace, d.Name)
	}
	sets := make(map[types.UID]*v1alpha1.MachineSet, len(o.Sets))
	groups := make(map[types.UID]string, len(o.Sets))
	for _, s := range o.Sets {
		owner := metav1.GetControllerOfNoCopy(s)
		if owner == nil || deployments[owner.UID] == "" {
			continue
		}
		id := deployments[owner.UID]
		sets[s.UID], groups[s.UID] = s, id
		ix.sets[id] = append(ix.sets[id], s)
	}
	for _, m := range o.Machines {
		owner := metav1.GetControllerOfNoCopy(m)
		if owner == nil || sets[owner.UID] == nil {
			continue
		}
		ix.addMember(&member{group: groups[owner.UID], machine: m, set: sets[owner.UID]})
	}
}

func (ix *index) addMember(m *member) {
	ix.groups[m.group] = append(ix.groups[m.group], m)
	ix.byUID[m.machine.UID] = m
	ix.byKey[m.machine.Namespace+"/"+m.machine.Name] = m
	ix.byNode[m.machine.ServerName()] = m
	if ref := m.machine.Status.NodeRef; ref != nil && ref.Name != "" {
		ix.byNode[ref.Name] = m
	}
	if id := m.machine.Spec.ProviderID; id != nil && *id != "" {
		ix.byServer[serverID(*id)] = m
	}
}

// addNode gives a Node to its Machine. Of several Nodes of one Machine the one with the Machine's own name stays, so
// that an answer does not depend on the order of events; all of them resolve (CA-C33).
func (ix *index) addNode(node *corev1.Node) {
	m := ix.find(Node{ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations})
	if m == nil {
		return
	}
	if m.node == nil || better(node, m.node, m.machine.ServerName()) {
		m.node = node
	}
	ix.byNode[node.Name] = m
	if node.Spec.ProviderID != "" {
		ix.byServer[serverID(node.Spec.ProviderID)] = m
	}
}

func better(a, b *corev1.Node, name string) bool {
	if (a.Name == name) != (b.Name == name) {
		return a.Name == name
	}
	return a.Name < b.Name
}

// find gives the member that a node belongs to, nil for a foreign one. The server decides where it is known; the
// Machine's marks and the name count only where they do not contradict it (CA-C25, C26).
func (ix *index) find(n Node) *member {
	if n.ProviderID != "" {
		if m := ix.byServer[serverID(n.ProviderID)]; m != nil {
			return m
		}
	}
	for _, m := range []*member{
		ix.byUID[types.UID(n.Labels[v1alpha1.LabelOwnedBy])],
		ix.byKey[n.Annotations[v1alpha1.AnnotationNodeMachine]],
		ix.byNode[n.Name],
	} {
		if m != nil && !contradicts(m, n.ProviderID) {
			return m
		}
	}
	return nil
}

// contradicts tells whether a provider ID names another server than the Machine's.
func contradicts(m *member, providerID string) bool {
	known := m.machine.Spec.ProviderID
	return providerID != "" && known != nil && *known != "" && serverID(*known) != serverID(providerID)
}
