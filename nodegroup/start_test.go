package nodegroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// inPhase returns a change that puts a Machine into a phase, with a Ready condition.
func inPhase(phase v1alpha1.MachinePhase, ready corev1.ConditionStatus) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.Phase = ptr.To(phase)
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: ready}}
	}
}

// joinedOnly is the state of a Machine whose node has registered and has not started.
var joinedOnly = inPhase(v1alpha1.PhaseJoined, corev1.ConditionFalse)

func TestSurplusInARolloutThatWaitsForAStart(t *testing.T) {
	for _, name := range []string{"hides the new node until it has started, not an old one that works (F-47)"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", 2, 0, 5)
			running := inPhase(v1alpha1.PhaseRunning, corev1.ConditionTrue)
			_, first := p.node("a-1", running)
			_, second := p.node("a-2", running)
			p.set = p.revision(2)
			_, fresh := p.node("b-1", joinedOnly)
			s := w.snapshot(t)
			for _, n := range []*corev1.Node{first, second} {
				if g := s.owner(asked(n)); g == nil {
					t.Errorf("node %s belongs to no group", n.Name)
				}
			}
			if g := s.owner(asked(fresh)); g != nil {
				t.Errorf("node %s belongs to group %s, want none", fresh.Name, g.id)
			}
		})
	}
}
