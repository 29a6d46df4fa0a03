package membership

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// nodeFacts are the facts that decide which Machine a node belongs to.
type nodeFacts struct {
	Node
	// owner is the UID of the Machine that the node names as its owner.
	owner string
	// registered is when the Node was created; zero when the time is not known.
	registered metav1.Time
	// controlPlane is true when the Node belongs to the control plane.
	controlPlane bool
}

func factsOf(n *corev1.Node) nodeFacts {
	return nodeFacts{
		Node:       Node{ProviderID: n.Spec.ProviderID, Name: n.Name, Labels: n.Labels, Annotations: n.Annotations},
		owner:      v1alpha1.NodeOwner(n.Labels, n.Annotations),
		registered: n.CreationTimestamp, controlPlane: v1alpha1.ControlPlaneRole(n.Labels, n.Spec.Taints) != "",
	}
}

// match returns the Machine that a node belongs to by the node's own fields; nil when they match no Machine. The server decides
// when it is known. The node's owner, its annotation and its name are used only where they do not contradict the server (CA-C25, C26).
func (ix *Index) match(n nodeFacts) *Member {
	if n.ProviderID != "" {
		if m := ix.choose(ix.of(machinesByServer, ix.server(n.ProviderID)), n); m != nil {
			return m
		}
	}
	if m := ix.members.Get(n.owner); m != nil && mayOwn(m, n) && !ix.contradicts(m, n.ProviderID) {
		return m
	}
	for _, uids := range [][]string{
		ix.of(machinesByKey, n.Annotations[v1alpha1.AnnotationNodeMachine]),
		ix.of(machinesByName, n.Name),
	} {
		if m := ix.choose(uids, n); m != nil && !ix.contradicts(m, n.ProviderID) {
			return m
		}
	}
	return nil
}

// choose returns the owner of a node among the Machines with these UIDs, whose fields all match the node. It prefers the Machine that
// the node names as its owner, then a Machine that is not being deleted, then the oldest, then the first by name.
func (ix *Index) choose(uids []string, n nodeFacts) *Member {
	var chosen *Member
	for _, uid := range uids {
		m := ix.members.Get(uid)
		if m == nil || !mayOwn(m, n) {
			continue
		}
		if owns(m, n) {
			return m
		}
		if chosen == nil || comesBefore(m, chosen) {
			chosen = m
		}
	}
	return chosen
}

func comesBefore(a, b *Member) bool {
	going := func(m *Member) int {
		if m.Machine.DeletionTimestamp.IsZero() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(going(a), going(b)),
		a.Machine.CreationTimestamp.Compare(b.Machine.CreationTimestamp.Time),
		cmp.Compare(a.Machine.Namespace, b.Machine.Namespace),
		cmp.Compare(a.Machine.Name, b.Machine.Name),
	) < 0
}

// owns reports whether the node names the Machine as its owner.
func owns(m *Member, n nodeFacts) bool {
	return n.owner == string(m.Machine.UID)
}

// mayOwn reports whether a node can belong to the Machine, whatever the Machine's fields state. A node that existed before the
// Machine must name it as its owner. A node of the control plane must do so, too, and must not be older than the Machine.
// Otherwise a user who may create Machines could claim such a node by a Machine that names its server, and the autoscaler might
// drain the node.
func mayOwn(m *Member, n nodeFacts) bool {
	older := !n.registered.IsZero() && n.registered.Before(&m.Machine.CreationTimestamp)
	if n.controlPlane {
		return owns(m, n) && !older
	}
	return owns(m, n) || !older
}

func nodeRefName(m *v1alpha1.Machine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.Name
}
