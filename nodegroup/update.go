package nodegroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// event is a change of an object that a watch has brought, or a live read.
type event struct {
	// object is the newest version; the last one that was known when the object is gone.
	object client.Object
	gone   bool
}

// update makes the next version of an index, and notes which groups have changed.
type update struct {
	*index
	// dirty are the ids of the groups that have changed.
	dirty map[string]bool
	// matching are the names of Nodes for which the Machine is to be found again, joining the UIDs of Machines for which the
	// Node is.
	matching, joining map[string]bool
}

// apply returns the index after the events, and the ids of the groups that they change.
func (ix *index) apply(events []event) (*index, map[string]bool) {
	next := *ix
	u := &update{index: &next, dirty: map[string]bool{}, matching: map[string]bool{}, joining: map[string]bool{}}
	for _, e := range events {
		u.take(e)
	}
	u.matchNodes()
	u.joinMachines()
	next.seal()
	return &next, u.dirty
}

func (u *update) take(e event) {
	switch o := e.object.(type) {
	case *v1alpha1.MachineDeployment:
		u.takeDeployment(o, e.gone)
	case *v1alpha1.MachineSet:
		u.takeSet(o, e.gone)
	case *v1alpha1.Machine:
		u.takeMachine(o, e.gone)
	case *corev1.Node:
		u.takeNode(o, e.gone)
	}
}

func (u *update) takeDeployment(d *v1alpha1.MachineDeployment, gone bool) {
	key, id := keyOf(d), ID(d.Namespace, d.Name)
	u.dirty[id] = true
	old := u.deployments.get(key)
	if gone && old != nil && old.UID != d.UID {
		return
	}
	if old != nil {
		u.groupIDs.drop(string(old.UID))
		u.deployments.drop(key)
	}
	if !gone {
		u.groupIDs.set(string(d.UID), id)
		u.deployments.set(key, d)
	}
}

func (u *update) takeSet(s *v1alpha1.MachineSet, gone bool) {
	key := keyOf(s)
	old := u.sets.get(key)
	if gone && old != nil && old.UID != s.UID {
		return
	}
	if old != nil {
		u.changed(old)
		unlink(&u.setsOf, string(parentOf(old)), string(old.UID))
		u.sets.drop(key)
		u.setsByUID.drop(string(old.UID))
	}
	if !gone {
		u.sets.set(key, s)
		u.setsByUID.set(string(s.UID), s)
		link(&u.setsOf, string(parentOf(s)), string(s.UID))
		u.changed(s)
	}
}

// changed notes that the group of a set has changed.
func (u *update) changed(s *v1alpha1.MachineSet) {
	if id := u.groupOfSet(s); id != "" {
		u.dirty[id] = true
	}
}

// changedMember notes that the group of a member has changed.
func (u *update) changedMember(m *member) { u.changed(u.setsByUID.get(string(m.set))) }

func (u *update) takeMachine(m *v1alpha1.Machine, gone bool) {
	uid := string(m.UID)
	old := u.members.get(uid)
	for _, other := range slices.Clone(u.machineClaims.keys.get(keyOf(m))) {
		if other != uid && !gone {
			u.takeMachine(u.members.get(other).machine, true)
		}
	}
	if old != nil {
		u.changedMember(old)
	}
	var next *member
	if !gone {
		next = newMember(m)
		if old != nil {
			next = next.withNode(old.node, old.providerID)
		}
	}
	u.claimMachine(old, next)
	if old != nil && (next == nil || next.set != old.set || compare(old, next) != 0) {
		strike(&u.lists, string(old.set), old)
	}
	if next == nil {
		u.members.drop(uid)
		return
	}
	u.put(next)
	u.changedMember(next)
}

// put stores a version of a member.
func (u *update) put(m *member) {
	u.members.set(string(m.machine.UID), m)
	insert(&u.lists, string(m.set), m)
}

// claimMachine puts the claims of the next version of a Machine in the place of those of the old one; either may be nil.
// Where nothing has changed by which Nodes are found, no Node is matched again.
func (u *update) claimMachine(old, next *member) {
	if old != nil && next != nil && sameClaims(old.machine, next.machine) && old.set == next.set {
		return
	}
	if old != nil {
		u.machineClaims.change(old.machine, unlink)
		u.rematchNodesOf(old.machine)
	}
	if next != nil {
		u.machineClaims.change(next.machine, link)
		u.rematchNodesOf(next.machine)
	}
}

// rematchNodesOf notes the Nodes that may belong to a Machine.
func (u *update) rematchNodesOf(m *v1alpha1.Machine) {
	u.rematch(u.nodeClaims.owners.get(string(m.UID)))
	u.rematch(u.nodeClaims.keys.get(keyOf(m)))
	u.rematch(u.nodeClaims.servers.get(claimedServer(m)))
	for _, name := range []string{m.ServerName(), nodeRefName(m)} {
		if u.nodes.get(name).node != nil {
			u.matching[name] = true
		}
	}
}

func (u *update) rematch(nodes names) {
	for _, name := range nodes {
		u.matching[name] = true
	}
}

func (u *update) takeNode(n *corev1.Node, gone bool) {
	old := u.nodes.get(n.Name)
	if old.node != nil {
		u.claimNode(old.node, unlink)
	}
	if !gone {
		u.claimNode(n, link)
		u.nodes.set(n.Name, joined{node: n, machine: old.machine})
		u.matching[n.Name] = true
		return
	}
	u.nodes.drop(n.Name)
	if old.machine != "" {
		unlink(&u.nodesOf, old.machine, n.Name)
		u.joining[old.machine] = true
	}
}

// claimNode adds or removes what a Node is found by. Nodes of the same server are matched again too: only one of their
// Machines is shown with the provider ID.
func (u *update) claimNode(n *corev1.Node, do linking) {
	u.nodeClaims.change(n, do)
	u.rematch(u.nodeClaims.servers.get(nodeServer(n.Spec.ProviderID)))
}
