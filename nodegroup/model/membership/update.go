package membership

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Event is a change of an object that a watch has delivered or a live read has shown.
type Event struct {
	// Object is the newest version of the object. When the object no longer exists, it is the last known version.
	Object Object
	Gone   bool
}

// update builds the next version of an index, and records the groups that have changed.
type update struct {
	*Index
	// dirty are the ids of the groups that have changed.
	dirty map[string]bool
	// matching holds the names of the Nodes whose Machine must be determined again. joining holds the UIDs of the Machines whose
	// Node must be determined again.
	matching, joining map[string]bool
}

// Apply returns the index after the events, and the ids of the groups that the events change.
func (ix *Index) Apply(events []Event) (*Index, map[string]bool) {
	next := *ix
	next.edit = new(Edit)
	u := &update{Index: &next, dirty: map[string]bool{}, matching: map[string]bool{}, joining: map[string]bool{}}
	for _, e := range events {
		u.take(e)
	}
	u.matchNodes()
	u.joinMachines()
	return u.Index, u.dirty
}

func (u *update) take(e Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.MachineDeployment:
		u.takeDeployment(o, e.Gone)
	case *v1alpha1.MachineSet:
		u.takeSet(o, e.Gone)
	case *v1alpha1.Machine:
		u.takeMachine(o, e.Gone)
	case *corev1.Node:
		u.takeNode(o, e.Gone)
	}
}

func (u *update) takeDeployment(d *v1alpha1.MachineDeployment, gone bool) {
	key, id := keyOf(d), ID(d.Namespace, d.Name)
	u.dirty[id] = true
	old := u.deployments.Get(key)
	if old != nil {
		u.groupIDs.Drop(u.edit, string(old.UID))
		u.deployments.Drop(u.edit, key)
	}
	if !gone {
		u.groupIDs.Set(u.edit, string(d.UID), id)
		u.deployments.Set(u.edit, key, d)
	}
}

func (u *update) takeSet(s *v1alpha1.MachineSet, gone bool) {
	key := keyOf(s)
	old := u.sets.Get(key)
	if old != nil {
		u.changed(old)
		unlink(&u.links[setsOf], u.edit, string(parentOf(old)), string(old.UID))
		u.sets.Drop(u.edit, key)
		u.setsByUID.Drop(u.edit, string(old.UID))
	}
	if !gone {
		u.sets.Set(u.edit, key, s)
		u.setsByUID.Set(u.edit, string(s.UID), s)
		link(&u.links[setsOf], u.edit, string(parentOf(s)), string(s.UID))
		u.changed(s)
	}
}

// changed records that the group of a set has changed.
func (u *update) changed(s *v1alpha1.MachineSet) {
	if id := u.groupOfSet(s); id != "" {
		u.dirty[id] = true
	}
}

// changedMember records that the group of a member has changed.
func (u *update) changedMember(m *Member) { u.changed(u.setsByUID.Get(string(m.set))) }

func (u *update) takeMachine(m *v1alpha1.Machine, gone bool) {
	uid := string(m.UID)
	old := u.members.Get(uid)
	for _, other := range u.of(machinesByKey, keyOf(m)) {
		if other != uid && !gone {
			u.takeMachine(u.members.Get(other).Machine, true)
		}
	}
	if old != nil {
		u.changedMember(old)
	}
	var next *Member
	if !gone {
		next = NewMember(u.cloud, m)
		if old != nil {
			next = next.WithNode(old.Node, old.ProviderID)
		}
	}
	u.claimMachine(old, next)
	if old != nil && (next == nil || next.set != old.set || Compare(old, next) != 0) {
		members := u.membersOf(old.set)
		if at, found := slices.BinarySearchFunc(members, old, Compare); found {
			u.setMembers(old.set, slices.Delete(members, at, at+1))
		}
	}
	if next == nil {
		u.members.Drop(u.edit, uid)
		return
	}
	u.put(next)
	u.changedMember(next)
}

// put stores a version of a member.
func (u *update) put(m *Member) {
	u.members.Set(u.edit, string(m.Machine.UID), m)
	members := u.membersOf(m.set)
	at, found := slices.BinarySearchFunc(members, m, Compare)
	if !found {
		members = slices.Insert(members, at, m)
	}
	members[at] = m
	u.setMembers(m.set, members)
}

// membersOf returns the members of a set, which the caller may change. The first call for a set copies them.
func (u *update) membersOf(set types.UID) []*Member {
	l := u.lists.Get(string(set))
	if l.edit == u.edit {
		return l.members
	}
	return slices.Clone(l.members)
}

// setMembers stores the members of a set, which are a result of membersOf. Without a set it stores nothing.
func (u *update) setMembers(set types.UID, members []*Member) {
	if len(members) == 0 || set == "" {
		u.lists.Drop(u.edit, string(set))
		return
	}
	u.lists.Set(u.edit, string(set), list{members, u.edit})
}

// claimMachine replaces the old version of a Machine by the next one in the maps that find Machines. Either version may be nil.
// Unless both versions match the same Nodes, claimMachine records that the Machine of each Node that one of them may match must
// be determined again.
func (u *update) claimMachine(old, next *Member) {
	if old != nil && next != nil && u.sameClaims(old.Machine, next.Machine) && old.set == next.set {
		return
	}
	if old != nil {
		u.linkMachine(old.Machine, unlink)
		u.rematchNodesOf(old.Machine)
	}
	if next != nil {
		u.linkMachine(next.Machine, link)
		u.rematchNodesOf(next.Machine)
	}
}

// linkMachine adds a Machine to the relations that find Machines, or removes it.
func (u *update) linkMachine(m *v1alpha1.Machine, do linking) {
	uid := string(m.UID)
	do(&u.links[machinesByKey], u.edit, keyOf(m), uid)
	do(&u.links[machinesByName], u.edit, m.ServerName(), uid)
	do(&u.links[machinesByName], u.edit, nodeRefName(m), uid)
	do(&u.links[machinesByServer], u.edit, u.claimedServer(m), uid)
}

// rematchNodesOf adds the Nodes that may belong to a Machine to u.matching.
func (u *update) rematchNodesOf(m *v1alpha1.Machine) {
	u.rematch(u.of(nodesByOwner, string(m.UID)))
	u.rematch(u.of(nodesByKey, keyOf(m)))
	u.rematch(u.of(nodesByServer, u.claimedServer(m)))
	for _, name := range []string{m.ServerName(), nodeRefName(m)} {
		if u.nodes.Get(name).node != nil {
			u.matching[name] = true
		}
	}
}

func (u *update) rematch(nodes []string) {
	for _, name := range nodes {
		u.matching[name] = true
	}
}

func (u *update) takeNode(n *corev1.Node, gone bool) {
	old := u.nodes.Get(n.Name)
	if old.node != nil {
		u.claimNode(old.node, unlink)
	}
	if !gone {
		u.claimNode(n, link)
		u.nodes.Set(u.edit, n.Name, joined{node: n, machine: old.machine})
		u.matching[n.Name] = true
		return
	}
	u.nodes.Drop(u.edit, n.Name)
	if old.machine != "" {
		unlink(&u.links[nodesOf], u.edit, old.machine, n.Name)
		u.joining[old.machine] = true
	}
}

// claimNode adds a Node to the maps that find Nodes, or removes it. It also records that the Machines of all Nodes on the same
// server must be determined again, because only one of these Machines may have the server's provider ID.
func (u *update) claimNode(n *corev1.Node, do linking) {
	server := u.nodeServer(n.Spec.ProviderID)
	do(&u.links[nodesByServer], u.edit, server, n.Name)
	do(&u.links[nodesByOwner], u.edit, v1alpha1.NodeOwner(n.Labels, n.Annotations), n.Name)
	do(&u.links[nodesByKey], u.edit, n.Annotations[v1alpha1.AnnotationNodeMachine], n.Name)
	u.rematch(u.of(nodesByServer, server))
}
