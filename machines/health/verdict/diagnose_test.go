package verdict

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhatAMachineShows(t *testing.T) {
	const none, well = "does not count", "well"
	missing := func(m *Machine) {
		m.Node = nil
		setMachine(m, v1alpha1.ConditionReady, corev1.ConditionUnknown, nodeMissing, time.Hour)
	}
	for _, tt := range []struct {
		name   string
		change func(*Machine)
		want   string
	}{
		{"a Ready Node is well (MCM-44)", func(*Machine) {}, well},
		{"Ready False is unhealthy (MCM-44)", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Hour) }, reasonNodeNotReady},
		{"Ready Unknown is unhealthy (MCM-44)", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour) }, reasonNodeNotReady},
		{"a Node without condition Ready is unhealthy (MCM-44)", func(m *Machine) { m.Node.Status.Conditions = nil }, reasonNodeNotReady},
		{"a listed condition that is True is unhealthy (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionTrue, time.Hour) }, reasonNodeBad},
		{"a listed condition that is Unknown is unhealthy (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionUnknown, time.Hour) }, reasonNodeBad},
		{"a listed condition that is False is well (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionFalse, time.Hour) }, well},
		{"a condition that is not listed does not matter (MCM-44)", func(m *Machine) { setNode(m, "MemoryPressure", corev1.ConditionTrue, time.Hour) }, well},
		{"of two troubles the older one is the reason (MCM-44)", func(m *Machine) {
			m.Noticed = noon.Add(-2 * time.Hour)
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Minute)
			setNode(m, "KernelDeadlock", corev1.ConditionTrue, time.Hour)
		}, reasonNodeBad},
		{"a Node that is missing while its server lives is unhealthy (MCM-45, MCM-69)", missing, reasonNodeMissing},
		{"a missing Node whose server is stopped too (MCM-69)", func(m *Machine) {
			missing(m)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionUnknown, "ServerNotActive", time.Hour)
		}, reasonNodeMissing},
		{"a missing Node whose server may be gone (MCM-69)", func(m *Machine) {
			missing(m)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionUnknown, "ServerUnknown", time.Hour)
		}, none},
		{"a Node that is missing in the cache, before anybody looked for it live (MCM-69)", func(m *Machine) {
			m.Node = nil
			setMachine(m, v1alpha1.ConditionReady, corev1.ConditionTrue, "NodeReady", time.Hour)
		}, none},
		{"a Machine whose server does not start", func(m *Machine) {
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverWontStart, time.Hour)
		}, reasonServer},
		{"a Machine whose server did not start, and whose Node is Ready again (MCM-44)", func(m *Machine) {
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverWontStart, time.Hour)
		}, well},
		{"a server that somebody moves or rescues", func(m *Machine) {
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverBusy, time.Hour)
		}, none},
		{"a Machine without a Node yet (CAPI-49)", func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, none},
		{"a Node whose first start is not complete (CAPI-49)", func(m *Machine) {
			m.Status.Phase = ptr.To(v1alpha1.PhaseJoined)
			setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Hour)
		}, none},
		{"a first start that is recorded counts whatever the phase is", func(m *Machine) {
			m.Status.Phase, m.Status.NodeMarks = ptr.To(v1alpha1.PhaseFailed), &v1alpha1.NodeMarks{Started: true}
		}, well},
		{"a Node that has registered again", func(m *Machine) { m.Node.UID = "another" }, none},
		{"a Node with the label of another Machine", func(m *Machine) { m.Node.Labels[v1alpha1.LabelOwnedBy] = "another" }, none},
		{"a Machine that is being deleted", func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, none},
		{"a Machine that is about to be removed", func(m *Machine) { m.Aside = true }, none},
		{"a paused Machine", func(m *Machine) { m.Annotations[v1alpha1.AnnotationPaused] = "" }, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 1)
			m := s.machine("a-0")
			m.Noticed = noon.Add(-time.Hour)
			tt.change(m)
			f := s.look(m)
			got := none
			switch {
			case f.Unhealthy:
				got = f.Reason
			case f.Counted:
				got = well
			}
			check(t, "it", got, tt.want)
		})
	}
}

func TestSinceWhen(t *testing.T) {
	for _, tt := range []struct {
		name                       string
		transition, noticed, began time.Duration // ago; noticed 0: never
		want                       time.Duration
	}{
		{"since the transition of the condition", 7 * time.Minute, 8 * time.Minute, time.Hour, 7 * time.Minute},
		{"not before this process saw it: the clock of the node may be years behind", 10000 * time.Hour, 3 * time.Minute, time.Hour, 3 * time.Minute},
		{"seen for the first time", 7 * time.Minute, 0, time.Hour, 0},
		{"a transition in the future does not count", -time.Hour, 3 * time.Minute, time.Hour, 3 * time.Minute},
		{"not before the lease was taken, or the API server could be reached again (MCM-51)", time.Hour, time.Hour, 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 1)
			s.Began = noon.Add(-tt.began)
			m := s.machine("a-0")
			setNode(m, corev1.NodeReady, corev1.ConditionFalse, tt.transition)
			if tt.noticed > 0 {
				m.Noticed = noon.Add(-tt.noticed)
			}
			check(t, "since", s.look(m).Since, noon.Add(-tt.want))
		})
	}
}
