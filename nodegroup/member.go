package nodegroup

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// member is a Machine, with its Node once that has registered. It is immutable.
type member struct {
	machine *v1alpha1.Machine
	// node is the Machine's Node; of several the one that has the Machine's own name; nil before one has registered.
	node *corev1.Node
	// providerID is the Node's spec.providerID, to the letter. It is empty while the Node has none, or one that the Node of
	// another Machine has too.
	providerID string
	// set is the UID of the MachineSet that the Machine belongs to.
	set types.UID
	// known are the facts for package rollout.
	known rollout.MachineFacts
	// requested returns what the Machine's spec requests from the cloud; it is read once.
	requested func() place
}

// newMember returns the member of a Machine without a Node.
func newMember(m *v1alpha1.Machine) *member {
	return &member{
		machine: m, set: parentOf(m), known: rollout.Facts(m, 0, m.CreationTimestamp.Time),
		requested: sync.OnceValue(func() place { return placeOf(m) }),
	}
}

// withNode returns the member with that Node, which may be nil.
func (m *member) withNode(node *corev1.Node, providerID string) *member {
	next := *m
	next.node, next.providerID = node, providerID
	next.known.NodeRegistered = node != nil
	return &next
}

// uid returns the UID of the Machine.
func (m *member) uid() types.UID { return m.machine.UID }

// facts returns what package rollout decides on.
func (m *member) facts() rollout.MachineFacts { return m.known }

// place returns what the Machine's spec requests from the cloud.
func (m *member) place() place { return m.requested() }

// in reports whether the Machine belongs to that MachineSet; nil is no set.
func (m *member) in(s *v1alpha1.MachineSet) bool { return s != nil && m.set == s.UID }

// registered reports whether the autoscaler can know the member's Node: the Node has a provider ID (CA-C41, C42).
func (m *member) registered() bool { return m.providerID != "" }

// starting reports whether the member's Node has registered and has not completed its first start: it still has the startup
// taint, or was never Ready. A Node that has started once is not starting again when it turns NotReady later: the phase of
// its Machine stays Running. A Machine without a phase is not drover's yet, so that its Node counts as started.
func (m *member) starting() bool {
	if m.node == nil || m.known.NodeReady || m.machine.Status.Phase == nil {
		return false
	}
	switch *m.machine.Status.Phase {
	case v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined:
		return true
	}
	return false
}

// usable reports whether pods can run on the member's Node: it is Ready and has lost the startup taint.
func (m *member) usable(startupTaint string) bool {
	return m.node != nil && m.facts().NodeReady && !tainted(m.node, startupTaint)
}

// tainted reports whether a Node has a taint with that key.
func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
