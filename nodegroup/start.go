package nodegroup

import (
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// starting reports whether the member's node has registered and has not completed its first start: it still has the startup
// taint, or was never Ready. A node that has started once is not starting again when it turns NotReady later: the phase of
// its Machine stays Running. A Machine without a phase is not drover's yet, so that its node counts as started.
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

// concealed reports whether the autoscaler is told that the member has no node yet although one has registered, until that
// node has started. In a group with options of its own the autoscaler (from release 1.35 on) would take a node that is
// starting for a broken one and order another, because the answer with the options cannot carry a startup time.
func (g *group) concealed(m *member) bool { return g.options.any() && m.registered() && m.starting() }

// instanceID returns the id under which the member is shown: its Node's provider ID, to the letter, else a placeholder.
func (g *group) instanceID(m *member) string {
	if m.registered() && !g.concealed(m) {
		return m.providerID
	}
	return placeholder{group: g.id, machine: m.machine.Name}.String()
}
