package membership

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/rollout"
)

// Member is a Machine and its Node, if one has registered. It is immutable.
type Member struct {
	Machine *v1alpha1.Machine
	// Node is the Machine's Node; nil until a Node has registered. When there are several, it is the Node with the Machine's
	// name.
	Node *corev1.Node
	// ProviderID is exactly the Node's spec.providerID. It is empty while the Node has no provider ID, or a provider ID
	// that another Machine's Node also has.
	ProviderID string
	// set is the UID of the MachineSet that the Machine belongs to.
	set types.UID
	// Facts are the facts of the Machine for the decisions of package rollout.
	Facts rollout.MachineFacts
	// Placement returns the placement that the Machine's spec requests. It returns false when the spec does not name a placement. It
	// parses the spec only once.
	Placement func() (cloud.Placement, bool)
}

// NewMember returns the member of a Machine without a Node. The provider parses the Machine's provider spec.
func NewMember(provider cloud.Provider, m *v1alpha1.Machine) *Member {
	return &Member{
		Machine: m, set: parentOf(m), Facts: rollout.Facts(m, 0, m.CreationTimestamp.Time),
		Placement: sync.OnceValues(func() (cloud.Placement, bool) { return provider.Placement(&m.Spec) }),
	}
}

// WithNode returns the member with the given Node, which may be nil.
func (m *Member) WithNode(node *corev1.Node, providerID string) *Member {
	next := *m
	next.Node, next.ProviderID = node, providerID
	next.Facts.NodeRegistered = node != nil
	return &next
}

// UID returns the UID of the Machine.
func (m *Member) UID() types.UID { return m.Machine.UID }

// In reports whether the Machine belongs to the MachineSet s; false when s is nil.
func (m *Member) In(s *v1alpha1.MachineSet) bool { return s != nil && m.set == s.UID }

// Registered reports whether the member's Node has a provider ID, by which the autoscaler knows the Node (CA-C41, C42).
func (m *Member) Registered() bool { return m.ProviderID != "" }

// Starting reports whether the member's Node has registered but not completed its first start: the Node still has the startup
// taint, or was never Ready. A Node that becomes NotReady later is not starting again: the phase of its Machine stays Running.
// When the Machine has no phase because drover has not reconciled it yet, its Node counts as started.
func (m *Member) Starting() bool {
	if m.Node == nil || m.Facts.NodeReady || m.Machine.Status.Phase == nil {
		return false
	}
	switch *m.Machine.Status.Phase {
	case v1alpha1.PhasePending, v1alpha1.PhaseProvisioning, v1alpha1.PhaseJoined:
		return true
	}
	return false
}

// Usable reports whether pods can run on the member's Node: the Node is Ready and no longer has the startup taint.
func (m *Member) Usable(startupTaint string) bool {
	return m.Node != nil && m.Facts.NodeReady && !Tainted(m.Node, startupTaint)
}

// Tainted reports whether a Node has a taint with the key.
func Tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}
