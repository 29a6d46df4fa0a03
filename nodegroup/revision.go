package nodegroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// event is one thing that has happened to an object: it is so now, or it is gone.
type event struct {
	object client.Object
	gone   bool
}

// revision makes the next version of an index, and notes the groups about which something has changed.
type revision struct {
	deployments   *draft[*v1alpha1.MachineDeployment]
	sets          *draft[*v1alpha1.MachineSet]
	groupIDs      *draft[string]
	setsByUID     *draft[*v1alpha1.MachineSet]
	setsOf        *draft[names]
	rosters       *draft[roster]
	members       *draft[*member]
	nodes         *draft[joined]
	nodesOf       *draft[names]
	machineClaims claimDrafts
	nodeClaims    claimDrafts
	bare          bool

	// dirty are the ids of groups to be decided anew; matching the names of Nodes and joining the UIDs of Machines whose
	// Nodes are to be found anew; sets the UIDs of sets whose group is.
	dirty, matching, joining map[string]bool
}

type claimDrafts struct{ servers, keys, names, owners *draft[names] }

func (c claims) draft() claimDrafts {
	return claimDrafts{c.servers.draft(), c.keys.draft(), c.names.draft(), c.owners.draft()}
}

func (c claimDrafts) done() claims {
	return claims{c.servers.done(), c.keys.done(), c.names.done(), c.owners.done()}
}

// apply gives the index after the events, and the ids of the groups that they are about.
func (ix *index) apply(events []event) (*index, map[string]bool) {
	r := &revision{
		deployments: ix.deployments.draft(), sets: ix.sets.draft(), groupIDs: ix.groupIDs.draft(), setsByUID: ix.setsByUID.draft(),
		setsOf: ix.setsOf.draft(), rosters: ix.rosters.draft(), members: ix.members.draft(),
		nodes: ix.nodes.draft(), nodesOf: ix.nodesOf.draft(),
		machineClaims: ix.machineClaims.draft(), nodeClaims: ix.nodeClaims.draft(), bare: ix.bare,
		dirty: map[string]bool{}, matching: map[string]bool{}, joining: map[string]bool{},
	}
	for _, e := range events {
		r.take(e)
	}
	r.match(r.index())
	next := r.index()
	r.join(next)
	next.members, next.rosters = r.members.done(), r.rosters.done()
	return next, r.dirty
}

// index is what the drafts hold now; they may be written to further only where nobody reads.
func (r *revision) index() *index {
	return &index{
		deployments: r.deployments.done(), sets: r.sets.done(), groupIDs: r.groupIDs.done(), setsByUID: r.setsByUID.done(),
		setsOf: r.setsOf.done(), rosters: r.rosters.done(), members: r.members.done(),
		nodes: r.nodes.done(), nodesOf: r.nodesOf.done(),
		machineClaims: r.machineClaims.done(), nodeClaims: r.nodeClaims.done(), bare: r.bare,
	}
}

func (r *revision) take(e event) {
	switch o := e.object.(type) {
	case *v1alpha1.MachineDeployment:
		r.takeDeployment(o, e.gone)
	case *v1alpha1.MachineSet:
		r.takeSet(o, e.gone)
	case *v1alpha1.Machine:
		r.takeMachine(o, e.gone)
	case *corev1.Node:
		r.takeNode(o, e.gone)
	}
}

func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// parentOf is the UID of an object's controller; empty when it has none.
func parentOf(o metav1.Object) types.UID {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID
	}
	return ""
}

func (r *revision) takeDeployment(d *v1alpha1.MachineDeployment, gone bool) {
	key, id := keyOf(d), ID(d.Namespace, d.Name)
	r.dirty[id] = true
	old := r.deployments.get(key)
	if gone && old != nil && old.UID != d.UID {
		return
	}
	if old != nil {
		r.groupIDs.drop(string(old.UID))
		r.deployments.drop(key)
	}
	if !gone {
		r.groupIDs.set(string(d.UID), id)
		r.deployments.set(key, d)
	}
}

func (r *revision) takeSet(s *v1alpha1.MachineSet, gone bool) {
	key := keyOf(s)
	old := r.sets.get(key)
	if gone && old != nil && old.UID != s.UID {
		return
	}
	if old != nil {
		r.dirtySet(old)
		unlink(r.setsOf, string(parentOf(old)), string(old.UID))
		r.sets.drop(key)
		r.setsByUID.drop(string(old.UID))
	}
	if !gone {
		r.sets.set(key, s)
		r.setsByUID.set(string(s.UID), s)
		link(r.setsOf, string(parentOf(s)), string(s.UID))
		r.dirtySet(s)
	}
}

// dirtySet notes the group of a set.
func (r *revision) dirtySet(s *v1alpha1.MachineSet) {
	switch parent := parentOf(s); {
	case parent != "":
		r.dirtyID(r.groupIDs.get(string(parent)))
	case r.bare:
		r.dirtyID(setID(s.Namespace, s.Name))
	}
}

func (r *revision) dirtyID(id string) {
	if id != "" {
		r.dirty[id] = true
	}
}

// dirtyMember notes the group of a Machine.
func (r *revision) dirtyMember(m *member) {
	if s := r.setsByUID.get(string(m.set)); s != nil {
		r.dirtySet(s)
	}
}

func (r *revision) takeMachine(m *v1alpha1.Machine, gone bool) {
	uid := string(m.UID)
	old := r.members.get(uid)
	for _, other := range slices.Clone(r.machineClaims.keys.get(keyOf(m))) {
		if other != uid && !gone {
			r.takeMachine(r.members.get(other).machine, true)
		}
	}
	if old != nil {
		r.dirtyMember(old)
	}
	var next *member
	if !gone {
		next = newMember(m)
		if old != nil {
			next = next.on(old.node, old.providerID)
		}
	}
	r.claimMachine(old, next)
	if old != nil && (next == nil || next.set != old.set || compareMembers(old, next) != 0) {
		strike(r.rosters, string(old.set), old)
	}
	if next == nil {
		r.members.drop(uid)
		return
	}
	r.put(next)
	r.dirtyMember(next)
}

// put takes in a version of a member.
func (r *revision) put(m *member) {
	r.members.set(string(m.machine.UID), m)
	enrol(r.rosters, string(m.set), m)
}

// claimMachine puts the claims of the next version of a Machine in the place of those of the old one; either may be nil.
// Where nothing that Nodes are found by has changed, nothing is looked up anew.
func (r *revision) claimMachine(old, next *member) {
	if old != nil && next != nil && sameClaims(old.machine, next.machine) && old.set == next.set {
		return
	}
	each := func(m *member, do func(d *draft[names], key, name string)) {
		uid := string(m.machine.UID)
		do(r.machineClaims.keys, keyOf(m.machine), uid)
		do(r.machineClaims.names, m.machine.ServerName(), uid)
		do(r.machineClaims.names, nodeRefName(m.machine), uid)
		do(r.machineClaims.servers, claimedServer(m.machine), uid)
		r.rematch(r.nodeClaims.owners.get(uid))
		r.rematch(r.nodeClaims.keys.get(keyOf(m.machine)))
		r.rematch(r.nodeClaims.servers.get(claimedServer(m.machine)))
		for _, name := range []string{m.machine.ServerName(), nodeRefName(m.machine)} {
			if r.nodes.get(name).node != nil {
				r.matching[name] = true
			}
		}
	}
	if old != nil {
		each(old, unlink)
	}
	if next != nil {
		each(next, link)
	}
}

func sameClaims(a, b *v1alpha1.Machine) bool {
	return claimedServer(a) == claimedServer(b) && nodeRefName(a) == nodeRefName(b) && a.ServerName() == b.ServerName() &&
		a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() && a.CreationTimestamp.Equal(&b.CreationTimestamp)
}

func nodeRefName(m *v1alpha1.Machine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}

func claimedServer(m *v1alpha1.Machine) string {
	if m.Spec.ProviderID == nil {
		return ""
	}
	return providerid.Server(*m.Spec.ProviderID)
}

func (r *revision) rematch(nodes names) {
	for _, name := range nodes {
		r.matching[name] = true
	}
}

func (r *revision) takeNode(n *corev1.Node, gone bool) {
	old := r.nodes.get(n.Name)
	if old.node != nil {
		r.claimNode(old.node, unlink)
	}
	if !gone {
		r.claimNode(n, link)
		r.nodes.set(n.Name, joined{node: n, machine: old.machine})
		r.matching[n.Name] = true
		return
	}
	r.nodes.drop(n.Name)
	if old.machine != "" {
		unlink(r.nodesOf, old.machine, n.Name)
		r.joining[old.machine] = true
	}
}

// claimNode puts in or takes out what a Node can be found by. Nodes that say the same are looked at too: only one of
// their Machines is shown with the provider ID.
func (r *revision) claimNode(n *corev1.Node, do func(d *draft[names], key, name string)) {
	server := nodeServer(n.Spec.ProviderID)
	do(r.nodeClaims.servers, server, n.Name)
	do(r.nodeClaims.owners, n.Labels[v1alpha1.LabelOwnedBy], n.Name)
	do(r.nodeClaims.keys, n.Annotations[v1alpha1.AnnotationNodeMachine], n.Name)
	r.rematch(r.nodeClaims.servers.get(server))
}

// match finds the Machines of the Nodes that it may have changed for.
func (r *revision) match(ix *index) {
	var moved []string
	for name := range r.matching {
		j := r.nodes.get(name)
		if j.node == nil {
			continue
		}
		var machine string
		if m := ix.match(factsOf(j.node)); m != nil {
			machine = string(m.machine.UID)
		}
		for _, uid := range []string{j.machine, machine} {
			if uid != "" {
				r.joining[uid] = true
			}
		}
		if machine == j.machine {
			continue
		}
		unlink(r.nodesOf, j.machine, name)
		link(r.nodesOf, machine, name)
		r.nodes.set(name, joined{node: j.node, machine: machine})
		moved = append(moved, nodeServer(j.node.Spec.ProviderID))
	}
	for _, server := range moved {
		for _, name := range r.nodeClaims.servers.get(server) {
			if uid := r.nodes.get(name).machine; uid != "" {
				r.joining[uid] = true
			}
		}
	}
}

// join gives each Machine whose Nodes may have changed its Node.
func (r *revision) join(ix *index) {
	for uid := range r.joining {
		m := r.members.get(uid)
		if m == nil {
			continue
		}
		node := ix.nodeOf(m)
		next := m.on(node, ix.providerIDOf(uid, node))
		if next.node == m.node && next.providerID == m.providerID {
			continue
		}
		r.put(next)
		r.dirtyMember(next)
	}
}

// nodeOf chooses among the Nodes of a Machine: the one that bears its name, else the first by name.
func (ix *index) nodeOf(m *member) *corev1.Node {
	list := ix.nodesOf.get(string(m.machine.UID))
	if len(list) == 0 {
		return nil
	}
	chosen := list[0]
	for _, name := range list {
		if name == m.machine.ServerName() {
			chosen = name
		}
	}
	return ix.nodes.get(chosen).node
}

// providerIDOf is the provider ID that a Machine is shown with: its Node's. Of several Machines whose Nodes bear the same
// one, the first by UID has it, and something that reads as a placeholder is none.
func (ix *index) providerIDOf(uid string, node *corev1.Node) string {
	if node == nil || node.Spec.ProviderID == "" {
		return ""
	}
	if _, ours := parsePlaceholder(node.Spec.ProviderID); ours {
		return ""
	}
	for _, name := range ix.nodeClaims.servers.get(nodeServer(node.Spec.ProviderID)) {
		other := ix.nodes.get(name)
		if other.machine != "" && other.machine < uid {
			return ""
		}
	}
	return node.Spec.ProviderID
}
