package verdict

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// long is longer than the health timeout.
const long = 11 * time.Minute

func TestTheHealthControllerSelectsMachinesToReplace(t *testing.T) {
	annotate := func(key, value string) func(*Machine) {
		return func(m *Machine) { m.Annotations[key] = value }
	}
	leave := func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }
	for _, tt := range []struct {
		name  string
		setup func(s *scene)
		// replace lists the Machines that are replaced, in order. held lists why other Machines are
		// not replaced, as name=reason.
		replace, held string
	}{
		{"replaces nothing when all Machines are healthy", func(s *scene) { s.group("a", 5) }, "", ""},
		{"keeps a Machine that has been unhealthy for less than the timeout (MCM-44)", func(s *scene) {
			s.group("a", 5)
			s.silent(9*time.Minute, "a-1")
		}, "", "a-1="},
		{"replaces a Machine that has been unhealthy for as long as the timeout (MCM-44)", func(s *scene) {
			s.group("a", 5)
			s.silent(10*time.Minute, "a-1")
		}, "a-1", ""},
		{"replaces a Machine whose Node was deleted by hand (MCM-45, MCM-69)", func(s *scene) {
			s.group("a", 5)
			s.gone(long, "a-1")
		}, "a-1", ""},
		{"replaces no Machine while another of its group is being replaced (MCM-46)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, time.Minute, "a-1")
			s.change(leave, "a-1")
			s.silent(long, "a-2")
		}, "", "a-2=OthersBeingReplaced"},
		{"replaces the Machine that has been unhealthy for the longest time before others of its group (MCM-47)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.silent(time.Hour, "a-2")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"keeps the second unhealthy Machine until the successor of the first is Ready (MCM-47)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 5*time.Minute, "a-1")
			s.remove("a-1")
			s.silent(long, "a-2")
		}, "", "a-2=OthersBeingReplaced"},
		{"replaces the second unhealthy Machine once the successor of the first is Ready (MCM-47)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 5*time.Minute, "gone")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"replaces only one Machine at a time when both Machines of a group are unhealthy (MCM-47)", func(s *scene) {
			s.group("a", 2)
			s.group("b", 10)
			s.silent(long, "a-*")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"replaces no Machine when more than the permitted share of a group is unhealthy (MCM-48)", func(s *scene) {
			s.group("a", 5)
			s.group("b", 20)
			s.silent(long, "a-0", "a-1", "a-2")
		}, "", "a-0=GroupUnhealthy a-1=GroupUnhealthy a-2=GroupUnhealthy"},
		{"replaces one Machine when the unhealthy share of its group is exactly the permitted share (MCM-48)", func(s *scene) {
			s.group("a", 5)
			s.group("b", 20)
			s.silent(long, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"replaces no Machine when more than the permitted share of the cluster is unhealthy (MCM-48)", func(s *scene) {
			s.group("a", 4)
			s.group("b", 4)
			s.group("c", 2)
			s.silent(long, "a-0", "b-0", "c-0", "c-1", "a-1")
		}, "", "a-0=ClusterUnhealthy b-0=ClusterUnhealthy c-0=ClusterUnhealthy"},
		{"replaces no Machine when too many of a group are unhealthy, even if most have not reached the timeout yet (MCM-48)", func(s *scene) {
			s.group("a", 5)
			s.group("b", 20)
			s.silent(long, "a-0")
			s.silent(time.Minute, "a-1", "a-2")
		}, "", "a-0=GroupUnhealthy"},
		{"replaces no Machine whose server is still being made, however long that takes (report 101)", func(s *scene) {
			s.group("a", 5)
			s.change(func(m *Machine) {
				m.Status.NodeRef, m.Node, m.Status.Phase = nil, nil, ptr.To(v1alpha1.PhasePending)
				m.CreationTimestamp = metav1.NewTime(noon.Add(-6 * time.Hour))
				setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, "ServerBuilding", 6*time.Hour)
			}, "a-*")
		}, "", ""},
		{"replaces none of the Machines whose Nodes have just registered, although none is Ready yet (report 102)", func(s *scene) {
			s.group("a", 20)
			s.starting(time.Minute, "a-*")
		}, "", ""},
		{"replaces the one Machine that was Ready before, and none of those that start for the first time (report 102)", func(s *scene) {
			s.group("a", 20)
			s.starting(29*time.Minute, "a-1", "a-2", "a-3")
			s.silent(long, "a-9")
		}, "a-9", ""},
		{"replaces one Machine of 20 whose Node does not start within --start-timeout (F-71)", func(s *scene) {
			s.group("a", 20)
			s.starting(31*time.Minute, "a-7")
		}, "a-7", ""},
		{"replaces none of 20 Machines when none of their Nodes starts, as without a cloud-controller-manager (F-71)", func(s *scene) {
			s.group("a", 20)
			s.group("b", 100)
			s.starting(31*time.Minute, "a-*")
		}, "", "a-0=GroupUnhealthy a-1=GroupUnhealthy a-19=GroupUnhealthy"},
		{"replaces Machines whose Nodes do not start one at a time (F-71)", func(s *scene) {
			s.group("a", 20)
			s.starting(31*time.Minute, "a-1")
			s.starting(32*time.Minute, "a-2")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"does not replace a Machine whose Node does not start when the health timeout is 0 (F-71)", func(s *scene) {
			s.group("a", 20).GetAnnotations()[v1alpha1.AnnotationHealthTimeout] = "0"
			s.starting(31*time.Minute, "a-1")
		}, "", "a-1=SwitchedOff"},
		{"gives Nodes their whole --start-timeout after an outage of the API server (F-71)", func(s *scene) {
			s.group("a", 20)
			s.Began = noon.Add(-29 * time.Minute)
			s.starting(time.Hour, "a-1")
		}, "", ""},
		{"counts starting Machines neither as healthy nor as unhealthy (CAPI-49, MCM-49)", func(s *scene) {
			s.group("a", 10)
			s.group("b", 20)
			s.change(func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, "a-5", "a-6", "a-7", "a-8", "a-9")
			s.silent(long, "a-0", "a-1") // 2 of 5
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"replaces no Machine when too many of the started Machines are unhealthy, however many others are still starting (MCM-49)", func(s *scene) {
			s.group("a", 10)
			s.group("b", 20)
			s.change(func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, "a-5", "a-6", "a-7", "a-8", "a-9")
			s.silent(long, "a-0", "a-1", "a-2") // 3 of 5
		}, "", "a-0=GroupUnhealthy"},
		{"replaces the next Machine when the successor of the previous one is not Ready in time (MCM-49)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 13*time.Minute, "a-1")
			s.remove("a-1")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"replaces the next Machine when deleting the previous one takes longer than drover waits for a successor (MCM-49)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 13*time.Minute, "a-1")
			s.change(leave, "a-1")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"replaces an unhealthy Machine during a scale-up (MCM-49, CAPI-49)", func(s *scene) {
			s.group("a", 5).Size = 500
			s.silent(long, "a-1")
		}, "a-1", ""},
		{"keeps an unhealthy Machine whose annotation sets the health timeout to never (MCM-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "never"), "a-1")
		}, "", "a-1=SwitchedOff"},
		{"replaces an unhealthy Machine that has a health timeout of its own in a group with a health timeout of 0 (MCM-50)", func(s *scene) {
			s.group("a", 5).GetAnnotations()[v1alpha1.AnnotationHealthTimeout] = "0"
			s.silent(long, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "1m"), "a-2")
		}, "a-2", "a-1=SwitchedOff"},
		{"replaces an unhealthy Machine after the default timeout when its own health timeout cannot be parsed", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "soon"), "a-1")
		}, "a-1", ""},
		{"starts the health timeout again when the API server can be reached again after an outage (MCM-51)", func(s *scene) {
			s.group("a", 5)
			s.silent(time.Hour, "a-1")
			s.Began = noon.Add(-9 * time.Minute)
		}, "", "a-1="},
		{"replaces three of eight unhealthy Machines when three may be replaced at once (CAPI-50)", func(s *scene) {
			s.group("a", 20)
			s.Settings.MaxReplacing = intstr.FromInt32(3)
			s.silent(long, "a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7")
		}, "a-0 a-1 a-2", "a-3=OthersBeingReplaced a-7=OthersBeingReplaced"},
		{"replaces two Machines of a group of eleven at once when 10 %, rounded up, may be replaced at once (CAPI-50)", func(s *scene) {
			s.group("a", 11).GetAnnotations()[v1alpha1.AnnotationHealthMaxReplacing] = "10%"
			s.silent(long, "a-0", "a-1", "a-2")
		}, "a-0 a-1", "a-2=OthersBeingReplaced"},
		{"treats a limit of 0 simultaneous replacements in the group's annotation as a limit of 1 (CAPI-50)", func(s *scene) {
			s.group("a", 5).GetAnnotations()[v1alpha1.AnnotationHealthMaxReplacing] = "0"
			s.silent(long, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"replaces a Machine with a replace annotation before all others and without a wait, even if it is healthy (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(time.Hour, "a-1")
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-2")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"replaces a Machine with a replace annotation although too many Machines are unhealthy (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-0", "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationReplaceCAPI, ""), "a-2")
		}, "a-2", "a-0=ClusterUnhealthy"},
		{"starts no more replacements at once than permitted, even when more Machines have a replace annotation (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-2", "a-3")
		}, "a-2", "a-3=OthersBeingReplaced"},
		{"leaves the replacement of an outdated Machine to the rollout (CAPI-51)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(func(m *Machine) { m.Outdated = true }, "a-1")
		}, "", "a-1=LeftToRollout"},
		{"keeps an unhealthy Machine that an annotation excludes from health checks", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationSkipHealth, "true"), "a-1")
			s.change(annotate(v1alpha1.AnnotationSkipHealthCAPI, ""), "a-2")
		}, "", "a-1=OptedOut a-2=OptedOut"},
		{"keeps the unhealthy Machines of a group that an annotation excludes from health checks", func(s *scene) {
			s.group("a", 5).GetAnnotations()[v1alpha1.AnnotationSkipHealth] = "true"
			s.silent(long, "a-1")
		}, "", "a-1=OptedOut"},
		{"keeps an unhealthy Machine without a set (MC-57)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(func(m *Machine) { m.Group = nil }, "a-1")
		}, "", "a-1=NoOwner"},
		{"replaces an unhealthy Machine of a set without a deployment (F-52)", func(s *scene) {
			s.group("a", 1).Kind = "MachineSet"
			s.silent(long, "a-0")
		}, "a-0", ""},
		{"replaces one Machine at a time, without a wait for the timeout, when servers cannot be started", func(s *scene) {
			s.group("a", 5)
			s.change(func(m *Machine) {
				setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Second)
				setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, reasonServer, time.Second)
			}, "a-1", "a-2")
		}, "a-1", "a-2=OthersBeingReplaced"},
		{"waits for a successor in a group whose rollout stands still with its surge (MCM-47)", func(s *scene) {
			g := s.group("a", 8)
			g.Size, g.Wanted = 5, 8
			s.began(g, time.Minute, "a-1")
			s.remove("a-1")
			s.silent(time.Hour, "a-2")
		}, "", "a-2=OthersBeingReplaced"},
		{"repeats the deletion of a Machine that was refused, and says so (MCM-46)", func(s *scene) {
			g := s.group("a", 10)
			s.silent(time.Hour, "a-1", "a-2")
			s.began(g, time.Minute, "a-1")
		}, "a-1", "a-1=DeletionRefused a-2=OthersBeingReplaced"},
		{"replaces other Machines of the group before a Machine whose deletion was refused for the time of a replacement (MCM-46)", func(s *scene) {
			g := s.group("a", 10)
			s.silent(time.Hour, "a-1", "a-2")
			s.began(g, 12*time.Minute, "a-1")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"replaces other Machines before a Machine whose deletion was refused, even if that Machine has a replace annotation (MCM-46)", func(s *scene) {
			g := s.group("a", 10)
			s.silent(time.Hour, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-1")
			s.began(g, 12*time.Minute, "a-1")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"repeats the deletion of a Machine that was refused for the time of a replacement when no other Machine of its group is unhealthy (MCM-46)", func(s *scene) {
			g := s.group("a", 10)
			s.silent(time.Hour, "a-1")
			s.began(g, 12*time.Minute, "a-1")
		}, "a-1", "a-1="},
		{"does not count a Machine as unhealthy when its server is gone (MCM-69)", func(s *scene) {
			s.group("a", 5)
			s.gone(long, "a-0", "a-1", "a-2", "a-3")
			s.change(func(m *Machine) {
				setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, "ServerGone", long)
			}, "a-*")
		}, "", ""},
		{"does not count Machines that are excluded from health checks (MCM-69)", func(s *scene) {
			s.group("a", 5)
			s.group("parked", 20)
			s.gone(long, "parked-*")
			s.change(annotate(v1alpha1.AnnotationSkipHealth, "true"), "parked-*")
			s.silent(long, "a-1")
		}, "a-1", "parked-0=OptedOut"},
		{"replaces one Machine of a group at a time when Nodes were deleted, as many as the permitted share (MCM-69)", func(s *scene) {
			s.group("a", 30)
			s.gone(long, "a-0", "a-1", "a-2", "a-3")
			s.silent(long, "a-9")
		}, "a-0", "a-1=OthersBeingReplaced a-9=OthersBeingReplaced"},
		{"replaces nothing when all Nodes were deleted (MCM-69)", func(s *scene) {
			s.group("a", 30)
			s.gone(long, "a-*")
		}, "", "a-0=ClusterUnhealthy"},
		{"replaces nothing when the list of Nodes is empty (MCM-69)", func(s *scene) {
			s.group("a", 30)
			s.change(func(m *Machine) { m.Node = nil }, "a-*")
		}, "", ""},
		{"replaces one Machine of each group at a time in an outage of a third of the cluster, such as one of three zones (MCM-48)", func(s *scene) {
			s.group("a", 9)
			s.group("b", 9)
			s.silent(long, "a-0", "a-3", "a-6", "b-0", "b-3", "b-6")
		}, "a-0 b-0", "a-3=OthersBeingReplaced a-6=OthersBeingReplaced b-3=OthersBeingReplaced b-6=OthersBeingReplaced"},
		{"replaces no Machine of a group that is in one zone in an outage of the zone (MCM-48)", func(s *scene) {
			s.group("a", 9)
			s.group("b", 20)
			s.silent(long, "a-*")
		}, "", "a-0=GroupUnhealthy a-8=GroupUnhealthy"},
		{"replaces the Machines of a failed host one at a time", func(s *scene) {
			s.group("a", 10)
			s.silent(long, "a-0", "a-1", "a-2")
		}, "a-0", "a-1=OthersBeingReplaced a-2=OthersBeingReplaced"},
		{"replaces nothing more in an outage in which the successor of the first Machine does not come either, for the time of a replacement (MCM-47, MCM-49)", func(s *scene) {
			g := s.group("a", 9)
			s.silent(time.Hour, "a-0", "a-3", "a-6")
			s.began(g, 12*time.Minute-time.Second, "a-0")
			s.remove("a-0")
		}, "", "a-3=OthersBeingReplaced a-6=OthersBeingReplaced"},
		{"replaces an unhealthy Machine that the previous leader recorded for replacement, and not another one of its group", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, time.Minute, "a-1")
			s.silent(time.Hour, "a-1", "a-2")
		}, "a-1", "a-2=OthersBeingReplaced"},
		{"replaces the next unhealthy Machine instead of a Machine that was recorded for replacement and has recovered", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, time.Minute, "a-1")
			s.silent(long, "a-2")
		}, "a-2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			tt.setup(s)
			p := Judge(s.World)
			check(t, "replaced", replaced(p), tt.replace)
			for _, want := range strings.Fields(tt.held) {
				name, brake, _ := strings.Cut(want, "=")
				check(t, name, verdictOf(p, name).Brake, Brake(brake))
			}
			if again := Judge(s.World); replaced(again) != replaced(p) {
				t.Errorf("the same snapshot is judged differently: %s", replaced(again))
			}
		})
	}
}

func TestALiveReadShowsWhetherAReplacementIsStillDue(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Machine)
		want   bool
	}{
		{"the replacement is due when nothing has changed", func(*Machine) {}, true},
		{"the replacement is not due when the Node is Ready on a live read", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionTrue, 0) }, false},
		{"the replacement is not due when the Node was Ready between the decision and the live read", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Minute) }, false},
		{"the replacement is not due when a live read does not find the unready Node any more", func(m *Machine) { m.Node = nil }, false},
		{"the replacement is not due when a live read shows that the Machine is being deleted", func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, false},
		{"the replacement is not due when the Machine was paused", func(m *Machine) { m.Annotations[v1alpha1.AnnotationPaused] = "" }, false},
		{"the replacement is not due when an annotation excludes the Machine from health checks", func(m *Machine) { m.Annotations[v1alpha1.AnnotationSkipHealth] = "true" }, false},
		{"the replacement is not due when the Machine got a health timeout of 0", func(m *Machine) { m.Annotations[v1alpha1.AnnotationHealthTimeout] = "0" }, false},
		{"the replacement is not due when a live read shows a new Machine with the same name", func(m *Machine) { m.UID = "another" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 5)
			s.silent(long, "a-1")
			p := Judge(s.World)
			live := Machine{Machine: s.machine("a-1").DeepCopy(), Node: s.machine("a-1").Node.DeepCopy()}
			tt.change(&live)
			check(t, "still due", s.StillDue(p.Groups[0].Replace[0], live.Machine, live.Node), tt.want)
		})
	}
	t.Run("for a Machine whose server could not be started, the replacement is not due when a live read shows its Node Ready (MCM-44)", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(time.Minute, "a-1")
		m := s.machine("a-1")
		setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, reasonServer, time.Minute)
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "a-1")
		live := Machine{Machine: m.Machine, Node: m.Node.DeepCopy()}
		check(t, "still due", s.StillDue(p.Groups[0].Replace[0], m.Machine, live.Node), true)
		setNode(&live, corev1.NodeReady, corev1.ConditionTrue, 0)
		check(t, "still due", s.StillDue(p.Groups[0].Replace[0], m.Machine, live.Node), false)
	})
	t.Run("the replacement is not due when the annotation that requested it is removed", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		m := s.machine("a-1")
		m.Annotations[v1alpha1.AnnotationReplace] = "true"
		p := Judge(s.World)
		live := m.DeepCopy()
		check(t, "still due", s.StillDue(p.Groups[0].Replace[0], live, m.Node), true)
		live.Annotations = nil
		check(t, "still due", s.StillDue(p.Groups[0].Replace[0], live, m.Node), false)
	})
}
