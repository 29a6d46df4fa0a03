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
