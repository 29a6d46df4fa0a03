package verdict

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const none, well = "does not count", "well"

// healthOf returns the reason why a Machine is unhealthy, or one of the constants.
func healthOf(s *scene, m *Machine) string {
	switch f := s.look(m); {
	case f.Unhealthy:
		return f.Reason
	case f.Counted:
		return well
	}
	return none
}

// missing removes the Machine's Node, as the Machine controller has found out.
func missing(m *Machine) {
	m.Node = nil
	setMachine(m, v1alpha1.ConditionReady, corev1.ConditionUnknown, reasonNodeMissing, time.Hour)
}

func TestWhichMachinesCountAsHealthyOrUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Machine)
		want   string
	}{
		{"a Ready Node is healthy (MCM-44)", func(*Machine) {}, well},
		{"a Node whose condition Ready is False is unhealthy (MCM-44)", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Hour) }, reasonNodeNotReady},
		{"a Node whose condition Ready is Unknown is unhealthy (MCM-44)", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour) }, reasonNodeNotReady},
		{"a Node without condition Ready is unhealthy (MCM-44)", func(m *Machine) { m.Node.Status.Conditions = nil }, reasonNodeNotReady},
		{"a Node is unhealthy when a condition of --health-node-conditions is True (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionTrue, time.Hour) }, reasonNodeBad},
		{"a Node is unhealthy when a condition of --health-node-conditions is Unknown (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionUnknown, time.Hour) }, reasonNodeBad},
		{"a Node is healthy when all conditions of --health-node-conditions are False (MCM-44)", func(m *Machine) { setNode(m, "KernelDeadlock", corev1.ConditionFalse, time.Hour) }, well},
		{"a Node is healthy when only a condition that --health-node-conditions does not name is True (MCM-44)", func(m *Machine) { setNode(m, "MemoryPressure", corev1.ConditionTrue, time.Hour) }, well},
		{"a Machine with two problems shows the older problem as the reason (MCM-44)", func(m *Machine) {
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Minute)
			setNode(m, "KernelDeadlock", corev1.ConditionTrue, 59*time.Minute)
		}, reasonNodeBad},
		{"a Machine is unhealthy when its Node is missing and its server exists (MCM-45, MCM-69)", missing, reasonNodeMissing},
		{"a Machine is unhealthy when its Node is missing and its server is stopped (MCM-69)", func(m *Machine) {
			missing(m)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionUnknown, "ServerNotActive", time.Hour)
		}, reasonNodeMissing},
		{"a Machine is neither healthy nor unhealthy when its Node is missing and its server may be gone (MCM-69)", func(m *Machine) {
			missing(m)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionUnknown, "ServerUnknown", time.Hour)
		}, none},
		{"a Machine whose Node is missing in the cache is neither healthy nor unhealthy before a live read (MCM-69)", func(m *Machine) {
			m.Node = nil
			setMachine(m, v1alpha1.ConditionReady, corev1.ConditionTrue, "NodeReady", time.Hour)
		}, none},
		{"a Machine whose server does not start is unhealthy", func(m *Machine) {
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, reasonServer, time.Hour)
		}, reasonServer},
		{"a Machine whose server did not start is healthy when its Node is Ready again (MCM-44)", func(m *Machine) {
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, reasonServer, time.Hour)
		}, well},
		{"a Machine is neither healthy nor unhealthy while its server is being moved or rescued", func(m *Machine) {
			setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Hour)
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverBusy, time.Hour)
		}, none},
		{"a Machine is neither healthy nor unhealthy before it has a Node (CAPI-49)", func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, none},
		{"a Machine is neither healthy nor unhealthy before the first start of its Node is complete (CAPI-49)", func(m *Machine) {
			m.Status.Phase = ptr.To(v1alpha1.PhaseJoined)
			setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Hour)
		}, none},
		{"a Machine with a healthy Node is healthy in any phase once the first start of its Node is recorded as complete", func(m *Machine) {
			m.Status.Phase, m.Status.NodeMarks = ptr.To(v1alpha1.PhaseFailed), &v1alpha1.NodeMarks{Started: true}
		}, well},
		{"a Machine is neither healthy nor unhealthy when its Node was deleted and has registered again", func(m *Machine) { m.Node.UID = "another" }, none},
		{"a Machine is neither healthy nor unhealthy when its Node has the owner label of another Machine", func(m *Machine) { m.Node.Labels[v1alpha1.LabelOwnedBy] = "another" }, none},
		{"a Machine is neither healthy nor unhealthy while it is being deleted", func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, none},
		{"a Machine is neither healthy nor unhealthy when it is listed for removal", func(m *Machine) { m.Aside = true }, none},
		{"a Machine is neither healthy nor unhealthy while it is paused", func(m *Machine) { m.Annotations[v1alpha1.AnnotationPaused] = "" }, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 1)
			m := s.machine("a-0")
			s.Seen[sighting{m.UID, unhealthy}] = noon.Add(-time.Hour)
			tt.change(m)
			check(t, "it", healthOf(s, m), tt.want)
		})
	}
}

func TestHowLongANodeMayTakeForItsFirstStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		// since is for how long drover has seen the Node starting.
		since  time.Duration
		change func(*Machine)
		want   string
	}{
		{"a Machine is neither healthy nor unhealthy while its Node has been starting for less than --start-timeout (F-71)", 29 * time.Minute, func(*Machine) {}, none},
		{"a Machine is unhealthy when its Node has been starting for as long as --start-timeout (F-71)", 30 * time.Minute, func(*Machine) {}, reasonNotStarted},
		{"a Machine is unhealthy when its Node has registered again and does not become Ready within --start-timeout (F-141)", time.Hour, func(m *Machine) {
			m.Status.NodeMarks = &v1alpha1.NodeMarks{Started: false}
		}, reasonNotStarted},
		{"a Machine is unhealthy when its Node was deleted while it was starting, longer than --start-timeout ago (F-141)", time.Hour, missing, reasonNotStarted},
		{"a Machine whose starting Node is missing in the cache is neither healthy nor unhealthy before a live read (F-141)", time.Hour, func(m *Machine) { m.Node = nil }, none},
		{"a Machine whose starting Node belongs to another Machine is neither healthy nor unhealthy", time.Hour, func(m *Machine) { m.Node.Labels[v1alpha1.LabelOwnedBy] = "another" }, none},
		{"a Machine is neither healthy nor unhealthy while its server is being moved or rescued in its Node's first start", time.Hour, func(m *Machine) {
			setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverBusy, time.Hour)
		}, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 1)
			s.starting(tt.since, "a-0")
			m := s.machine("a-0")
			tt.change(m)
			check(t, "it", healthOf(s, m), tt.want)
		})
	}
	t.Run("without a --start-timeout a Node may take any time (F-71)", func(t *testing.T) {
		s := newScene()
		s.Settings.StartTimeout = 0
		s.group("a", 1)
		s.starting(1000*time.Hour, "a-0")
		check(t, "it", healthOf(s, s.machine("a-0")), none)
		check(t, "next look", Judge(s.World).NextLook, time.Time{})
	})
	t.Run("the time begins when drover first sees the Node starting, and ends with the start (F-71, F-141)", func(t *testing.T) {
		s := newScene()
		s.group("a", 20)
		s.starting(0, "a-1")
		s.Seen = Seen{}
		p := Judge(s.World)
		check(t, "next look", p.NextLook, noon.Add(30*time.Minute))
		s.Now, s.Seen = noon.Add(29*time.Minute), p.Seen
		m := s.machine("a-1")
		m.Status.Phase = ptr.To(v1alpha1.PhaseRunning)
		s.Seen = Judge(s.World).Seen
		s.Now = noon.Add(30 * time.Minute)
		check(t, "since when a later problem counts", s.look(m).Since, noon.Add(29*time.Minute))
	})
}

func TestTheTimeFromWhichAMachineCountsAsUnhealthy(t *testing.T) {
	for _, tt := range []struct {
		name string
		// transition, noticed and began are durations before noon, as is the expected time, want. noticed is 0 when
		// drover has not noticed the problem before.
		transition, noticed, began, want time.Duration
	}{
		{"is the time of the last transition of the Node's condition", 7 * time.Minute, 8 * time.Minute, time.Hour, 7 * time.Minute},
		{"is the time at which drover noticed the problem if the Node's condition shows a much earlier time", 10000 * time.Hour, 3 * time.Minute, time.Hour, 3 * time.Minute},
		{"is the present time when drover notices the problem for the first time", 7 * time.Minute, 0, time.Hour, 0},
		{"is the time at which drover noticed the problem if the transition of the Node's condition is in the future", -time.Hour, 3 * time.Minute, time.Hour, 3 * time.Minute},
		{"is not before drover acquired its lease or the last outage of the API server ended (MCM-51)", time.Hour, time.Hour, 2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 1)
			s.Began = noon.Add(-tt.began)
			m := s.machine("a-0")
			setNode(m, corev1.NodeReady, corev1.ConditionFalse, tt.transition)
			if tt.noticed > 0 {
				s.noticed(m, tt.noticed)
			}
			check(t, "since", s.look(m).Since, noon.Add(-tt.want))
		})
	}
}
