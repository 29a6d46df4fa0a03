package verdict

import (
	"fmt"
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

func TestJudge(t *testing.T) {
	annotate := func(key, value string) func(*Machine) {
		return func(m *Machine) { m.Annotations[key] = value }
	}
	leave := func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }
	for _, tt := range []struct {
		name  string
		setup func(s *scene)
		// replace are the Machines that are replaced, in their order. held are brakes of Machines, as name=brake.
		replace, held string
	}{
		{"all is well", func(s *scene) { s.group("a", 5) }, "", ""},
		{"unhealthy for less than the timeout (MCM-44)", func(s *scene) {
			s.group("a", 5)
			s.silent(9*time.Minute, "a-1")
		}, "", "a-1="},
		{"unhealthy for the timeout (MCM-44)", func(s *scene) {
			s.group("a", 5)
			s.silent(10*time.Minute, "a-1")
		}, "a-1", ""},
		{"a Node that was deleted by hand (MCM-45, MCM-69)", func(s *scene) {
			s.group("a", 5)
			s.gone(long, "a-1")
		}, "a-1", ""},
		{"while a peer is replaced, no other is (MCM-46)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, time.Minute, "a-1")
			s.change(leave, "a-1")
			s.silent(long, "a-2")
		}, "", "a-2=OthersBeingReplaced"},
		{"of two unhealthy Machines one is replaced, the one that is so for longer (MCM-47)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.silent(time.Hour, "a-2")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"the second one waits for the successor of the first (MCM-47)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 5*time.Minute, "a-1")
			s.remove("a-1")
			s.silent(long, "a-2")
		}, "", "a-2=OthersBeingReplaced"},
		{"the second one goes once the successor of the first is Ready (MCM-47)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 5*time.Minute, "gone")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"both of a group of two: one after the other (MCM-47)", func(s *scene) {
			s.group("a", 2)
			s.group("b", 10)
			s.silent(long, "a-*")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"more than the share of a group is unhealthy: none is replaced (MCM-48)", func(s *scene) {
			s.group("a", 5, "x")
			s.group("b", 20, "x")
			s.silent(long, "a-0", "a-1", "a-2")
		}, "", "a-0=GroupUnhealthy a-1=GroupUnhealthy a-2=GroupUnhealthy"},
		{"the share itself is not too many, rounded down (MCM-48)", func(s *scene) {
			s.group("a", 5, "x")
			s.group("b", 20, "x")
			s.silent(long, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"more than the share of a zone is unhealthy: none there is replaced, others are (MCM-48)", func(s *scene) {
			s.group("a", 20, "x", "y", "z", "z")
			s.silent(long, "a-0", "a-4", "a-8", "a-1") // 3 of 5 in x, 1 of 5 in y
		}, "a-1", "a-0=ZoneUnhealthy a-4=ZoneUnhealthy a-8=ZoneUnhealthy"},
		{"more than the share of the cluster is unhealthy (MCM-48)", func(s *scene) {
			s.group("a", 4)
			s.group("b", 4)
			s.group("c", 2)
			s.silent(long, "a-0", "b-0", "c-0", "c-1", "a-1")
		}, "", "a-0=ClusterUnhealthy b-0=ClusterUnhealthy c-0=ClusterUnhealthy"},
		{"trouble counts for the share before the timeout is over (MCM-48)", func(s *scene) {
			s.group("a", 5, "x")
			s.group("b", 20, "x")
			s.silent(long, "a-0")
			s.silent(time.Minute, "a-1", "a-2")
		}, "", "a-0=GroupUnhealthy"},
		{"a brake of many lets go, and the Nodes have half of the timeout to become Ready one after the other (MCM-48)", func(s *scene) {
			s.group("a", 10)
			s.silent(time.Hour, "a-0", "a-1", "a-2")
			s.change(func(m *Machine) { m.Held = noon.Add(-4 * time.Minute) }, "a-0", "a-1")
		}, "a-2", "a-0= a-1="},
		{"half of the timeout after that, repair goes on (MCM-48)", func(s *scene) {
			s.group("a", 10)
			s.silent(time.Hour, "a-0", "a-1")
			s.change(func(m *Machine) { m.Held = noon.Add(-5 * time.Minute) }, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"Machines in the making count neither as well nor as unhealthy (CAPI-49, MCM-49)", func(s *scene) {
			s.group("a", 10, "x")
			s.group("b", 20, "x")
			s.change(func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, "a-5", "a-6", "a-7", "a-8", "a-9")
			s.silent(long, "a-0", "a-1") // 2 of 5
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"Machines in the making are no well ones that make room (MCM-49)", func(s *scene) {
			s.group("a", 10, "x")
			s.group("b", 20, "x")
			s.change(func(m *Machine) { m.Status.NodeRef, m.Node = nil, nil }, "a-5", "a-6", "a-7", "a-8", "a-9")
			s.silent(long, "a-0", "a-1", "a-2") // 3 of 5
		}, "", "a-0=GroupUnhealthy"},
		{"a peer that is stuck in creation blocks no longer than a successor may take (MCM-49)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 13*time.Minute, "a-1")
			s.remove("a-1")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"a peer that is stuck in its deletion does not either (MCM-49)", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, 13*time.Minute, "a-1")
			s.change(leave, "a-1")
			s.silent(long, "a-2")
		}, "a-2", ""},
		{"a scale-up blocks no repair (MCM-49, CAPI-49)", func(s *scene) {
			s.group("a", 5).Size = 500
			s.silent(long, "a-1")
		}, "a-1", ""},
		{"health is switched off for a Machine (MCM-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "never"), "a-1")
		}, "", "a-1=SwitchedOff"},
		{"health is switched off for a group, and not for one of its Machines (MCM-50)", func(s *scene) {
			s.group("a", 5).Annotations[v1alpha1.AnnotationHealthTimeout] = "0"
			s.silent(long, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "1m"), "a-2")
		}, "a-2", "a-1=SwitchedOff"},
		{"a timeout that cannot be read does not count", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(annotate(v1alpha1.AnnotationHealthTimeout, "soon"), "a-1")
		}, "a-1", ""},
		{"timers start again when the API server can be reached again (MCM-51)", func(s *scene) {
			s.group("a", 5)
			s.silent(time.Hour, "a-1")
			s.Began = noon.Add(-9 * time.Minute)
		}, "", "a-1="},
		{"a stale snapshot is not judged (MCM-79)", func(s *scene) {
			s.group("a", 5)
			s.silent(time.Hour, "a-1")
			s.Stale = "the API server cannot be reached"
		}, "", ""},
		{"three of eight when three may be replaced at once, and the share allows it (CAPI-50)", func(s *scene) {
			s.group("a", 20, "x")
			s.Settings.MaxReplacing = intstr.FromInt32(3)
			s.silent(long, "a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7")
		}, "a-0 a-1 a-2", "a-3=OthersBeingReplaced a-7=OthersBeingReplaced"},
		{"a percentage is rounded up (CAPI-50)", func(s *scene) {
			s.group("a", 11, "x").Annotations[v1alpha1.AnnotationHealthMaxReplacing] = "10%"
			s.silent(long, "a-0", "a-1", "a-2")
		}, "a-0 a-1", "a-2=OthersBeingReplaced"},
		{"at least one at a time (CAPI-50)", func(s *scene) {
			s.group("a", 5).Annotations[v1alpha1.AnnotationHealthMaxReplacing] = "0"
			s.silent(long, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"what is asked for goes first, without a timeout, also when it is well (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(time.Hour, "a-1")
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-2")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"what is asked for goes although too many are unhealthy (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-0", "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationReplaceCAPI, ""), "a-2")
		}, "a-2", "a-0=ClusterUnhealthy"},
		{"what is asked for keeps to the number at a time (CAPI-50)", func(s *scene) {
			s.group("a", 5)
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-2", "a-3")
		}, "a-2", "a-3=OthersBeingReplaced"},
		{"an outdated Machine is left to the rollout (CAPI-51)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(func(m *Machine) { m.Outdated = true }, "a-1")
		}, "", "a-1=LeftToRollout"},
		{"a Machine that is opted out", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationSkipHealth, "true"), "a-1")
			s.change(annotate(v1alpha1.AnnotationSkipHealthCAPI, ""), "a-2")
		}, "", "a-1=OptedOut a-2=OptedOut"},
		{"a group that is opted out", func(s *scene) {
			s.group("a", 5).Annotations[v1alpha1.AnnotationSkipHealth] = "true"
			s.silent(long, "a-1")
		}, "", "a-1=OptedOut"},
		{"a Machine without a set is only marked (MC-57)", func(s *scene) {
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(func(m *Machine) { m.Group = nil }, "a-1")
		}, "", "a-1=NoOwner"},
		{"a Machine of a bare set is replaced (F-52)", func(s *scene) {
			s.group("a", 1).Kind = "MachineSet"
			s.silent(long, "a-0")
		}, "a-0", ""},
		{"a server that does not start is replaced without waiting, under the brakes", func(s *scene) {
			s.group("a", 5)
			s.change(func(m *Machine) {
				setNode(m, corev1.NodeReady, corev1.ConditionUnknown, time.Second)
				setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverWontStart, time.Second)
			}, "a-1", "a-2")
		}, "a-1", "a-2=OthersBeingReplaced"},
		{"one whose deletion is refused lets the others of its group go first (MCM-46)", func(s *scene) {
			s.group("a", 10)
			s.silent(time.Hour, "a-1", "a-2")
			s.change(func(m *Machine) { m.Refused = noon.Add(-time.Second) }, "a-1")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"also when it is asked for (MCM-46)", func(s *scene) {
			s.group("a", 10)
			s.silent(time.Hour, "a-1", "a-2")
			s.change(annotate(v1alpha1.AnnotationReplace, "true"), "a-1")
			s.change(func(m *Machine) { m.Refused = noon.Add(-time.Second) }, "a-1")
		}, "a-2", "a-1=OthersBeingReplaced"},
		{"one whose deletion is refused is not tried before its time", func(s *scene) {
			s.group("a", 10)
			s.silent(time.Hour, "a-1")
			s.change(func(m *Machine) { m.Refused = noon.Add(time.Second) }, "a-1")
		}, "", "a-1=DeletionRefused"},
		{"Nodes of servers that are gone too do not count as missing (MCM-69)", func(s *scene) {
			s.group("a", 30, "x")
			s.group("bare", 4)
			s.gone(long, "bare-*")
			s.change(func(m *Machine) {
				m.Group = nil
				setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverGone, long)
			}, "bare-*")
			s.silent(long, "a-9")
		}, "a-9", ""},
		{"nor do those of Machines that are opted out (MCM-69)", func(s *scene) {
			s.group("a", 30, "x")
			s.group("parked", 4)
			s.gone(long, "parked-*")
			s.change(annotate(v1alpha1.AnnotationSkipHealth, "true"), "parked-*")
			s.silent(long, "a-9")
		}, "a-9", "parked-0=OptedOut"},
		{"more than three and a tenth of the Nodes are missing: nothing is replaced (MCM-69)", func(s *scene) {
			s.group("a", 30, "x")
			s.gone(long, "a-0", "a-1", "a-2", "a-3")
			s.silent(long, "a-9")
		}, "", "a-0=TooManyNodesMissing a-9=TooManyNodesMissing"},
		{"a list of Machines that lacks most of a zone in an outage replaces none of those that are left (MCM-48)", func(s *scene) {
			s.group("a", 30, "x", "y", "z")
			s.silent(long, "a-0", "a-3", "a-6", "a-9")
			s.remove("a-0", "a-3", "a-12", "a-15", "a-18", "a-21", "a-24", "a-27")
			s.Missing = 8
		}, "", "a-6=TooManyMachinesMissing a-9=TooManyMachinesMissing"},
		{"three missing Machines, or a tenth, are believed (MCM-48)", func(s *scene) {
			s.group("a", 30, "x")
			s.silent(long, "a-6")
			s.remove("a-0", "a-1", "a-2")
			s.Missing = 3
		}, "a-6", ""},
		{"three missing Nodes are believed (MCM-69)", func(s *scene) {
			s.group("a", 8, "x")
			s.gone(long, "a-0", "a-1", "a-2")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"an empty list of Nodes replaces nothing (MCM-69)", func(s *scene) {
			s.group("a", 30, "x")
			s.gone(long, "a-*")
		}, "", "a-0=TooManyNodesMissing"},
		{"a failed host is one incident: all its Machines go at once", func(s *scene) {
			s.group("a", 10, "x")
			s.on("h1", "a-0", "a-1", "a-2")
			s.on("h2", "a-3", "a-4", "a-5")
			s.silent(long, "a-0", "a-1", "a-2")
		}, "a-0 a-1 a-2", ""},
		{"a failed host counts once for the shares while the rest of its zone is well", func(s *scene) {
			s.group("a", 5, "x")
			s.on("h1", "a-0", "a-1", "a-2")
			s.silent(long, "a-0", "a-1", "a-2")
		}, "a-0 a-1 a-2", ""},
		{"a host on which one Machine is well has not failed", func(s *scene) {
			s.group("a", 10, "x")
			s.on("h1", "a-0", "a-1", "a-2")
			s.silent(long, "a-0", "a-1")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"nor has one whose well Node has lost the host's label: what the Machines record counts", func(s *scene) {
			s.group("a", 10, "x")
			s.on("h1", "a-0", "a-1", "a-2")
			s.silent(long, "a-0", "a-1")
			s.change(func(m *Machine) { delete(m.Node.Labels, v1alpha1.LabelPhysicalHost) }, "a-2")
		}, "a-0", "a-1=OthersBeingReplaced"},
		{"hosts that fail together with their zone are no host failures", func(s *scene) {
			s.group("a", 10, "x", "y")
			s.on("h1", "a-0", "a-2")
			s.on("h2", "a-4", "a-6")
			s.silent(long, "a-0", "a-2", "a-4", "a-6")
		}, "", "a-0=ZoneUnhealthy a-6=ZoneUnhealthy"},
		{"the only host of a zone is no host failure", func(s *scene) {
			s.group("a", 10, "x", "y", "y", "y", "y")
			s.group("b", 1, "x")
			s.on("h1", "a-0", "a-5", "b-0")
			s.silent(long, "a-0", "a-5", "b-0")
		}, "", "a-0=ZoneUnhealthy"},
		{"while a failed host is being replaced, no other Machine of the group is", func(s *scene) {
			g := s.group("a", 10, "x")
			s.on("h1", "a-0", "a-1")
			s.began(g, time.Minute, "a-0", "a-1")
			g.Replacements[0].Host, g.Replacements[1].Host = "h1", "h1"
			s.change(leave, "a-0", "a-1")
			s.silent(long, "a-5")
		}, "", "a-5=OthersBeingReplaced"},
		{"a Machine of a failed host whose time comes later goes with the others", func(s *scene) {
			g := s.group("a", 10, "x")
			s.on("h1", "a-0", "a-1")
			s.began(g, time.Minute, "a-0")
			g.Replacements[0].Host = "h1"
			s.change(leave, "a-0")
			s.silent(long, "a-1")
		}, "a-1", ""},
		{"a replacement that a former leader recorded goes on", func(s *scene) {
			g := s.group("a", 5)
			s.began(g, time.Minute, "a-1")
			s.silent(time.Hour, "a-1", "a-2")
		}, "a-1", "a-2=OthersBeingReplaced"},
		{"a recorded replacement whose Machine has recovered blocks nobody", func(s *scene) {
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

func TestRecords(t *testing.T) {
	t.Run("what is replaced now stands in the record (MCM-46)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.silent(long, "a-1")
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1")
		check(t, "UID", p.Groups[0].Replacements[0].UID, s.machine("a-1").UID)
	})
	t.Run("an entry stays while its Machine is going, and while the successor comes (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "a-1")
		s.remove("a-1")
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1")
		check(t, "next look", p.NextLook, noon.Add(11*time.Minute))
	})
	t.Run("an entry goes once the successor is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "gone")
		check(t, "record", recordOf(Judge(s.World), g), "")
	})
	t.Run("of two entries with one successor that is awaited the younger stays (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, 5*time.Minute, "gone")
		s.began(g, time.Minute, "a-1")
		s.remove("a-1")
		check(t, "record", recordOf(Judge(s.World), g), "a-1")
	})
	t.Run("in a rollout with surge the second one waits for the successor of the first, too (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 20)
		g.Size = 10
		for i := 10; i < 20; i++ {
			s.machine(fmt.Sprintf("a-%d", i)).Outdated = true
		}
		s.silent(long, "a-0", "a-1")
		s.began(g, time.Minute, "a-0")
		s.remove("a-0")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "")
		check(t, "record", recordOf(p, g), "a-0")
	})
	t.Run("an entry from the future begins now, and ends as others do (MCM-49)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 10)
		g.Size = 11
		s.began(g, -24*time.Hour, "gone")
		s.silent(long, "a-1")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "")
		g.Replacements = p.Groups[0].Replacements
		check(t, "began", g.Replacements[0].Started.Time, noon)
		s.Now = noon.Add(12 * time.Minute)
		check(t, "replaced after the join timeout and two minutes", replaced(Judge(s.World)), "a-1")
	})
	t.Run("a list of Machines that is empty ends no entry before its time", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "a-1", "a-2")
		s.Machines = nil
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1 a-2")
		check(t, "replaced", replaced(p), "")
	})
	t.Run("a record has no more entries than the API server stores", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 1000, "x")
		s.Settings.MaxReplacing = intstr.FromString("100%")
		for i := range 300 {
			s.silent(long, fmt.Sprintf("a-%d", i))
		}
		p := Judge(s.World)
		check(t, "replaced", len(p.Replace), v1alpha1.MaxHealthReplacements)
		check(t, "verdicts", len(p.Verdicts), 300)
		check(t, "held", heldOf(p, g), "")
	})
}

func TestWhatIsShown(t *testing.T) {
	condition := func(s *scene, name string) *Condition { return verdictOf(Judge(s.World), name).Condition }
	t.Run("a Machine that was always well has no condition Healthy", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		check(t, "verdicts", len(Judge(s.World).Verdicts), 0)
	})
	t.Run("the condition says what, since when and when it is replaced", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(4*time.Minute, "a-1")
		c := condition(s, "a-1")
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != reasonNodeNotReady ||
			c.Message != "Node a-1: condition Ready is Unknown (Test), since 2026-11-22T11:56:00Z; it is replaced at 2026-11-22T12:06:00Z unless it recovers" {
			t.Errorf("got %+v", c)
		}
		check(t, "next look", Judge(s.World).NextLook, noon.Add(time.Minute))
	})
	t.Run("of a reason that a kubelet makes up only one word is shown, and its beginning", func(t *testing.T) {
		for reason, want := range map[string]string{
			strings.Repeat("A", 1000):                 " (" + strings.Repeat("A", 64) + ")",
			"Fine), all is well; delete the others (": "",
		} {
			s := newScene()
			s.group("a", 5)
			s.silent(4*time.Minute, "a-1")
			s.machine("a-1").Node.Status.Conditions[0].Reason = reason
			check(t, "trouble", verdictOf(Judge(s.World), "a-1").Trouble, "Node a-1: condition Ready is Unknown"+want)
		}
	})
	t.Run("nothing is written about the first seconds", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(4*time.Second, "a-1")
		if c := condition(s, "a-1"); c != nil {
			t.Errorf("got %+v", c)
		}
		check(t, "next look", Judge(s.World).NextLook, noon.Add(6*time.Second))
	})
	t.Run("what is shown already is not written again", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(4*time.Minute, "a-1")
		c := condition(s, "a-1")
		m := s.machine("a-1")
		m.Status.Conditions = append(m.Status.Conditions, v1alpha1.MachineCondition{Type: v1alpha1.ConditionHealthy, Status: c.Status, Reason: c.Reason, Message: c.Message})
		if c := condition(s, "a-1"); c != nil {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("a Machine that has recovered is shown so (MCM-44)", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		setMachine(s.machine("a-1"), v1alpha1.ConditionHealthy, corev1.ConditionFalse, reasonNodeNotReady, time.Hour)
		if c := condition(s, "a-1"); c == nil || c.Status != corev1.ConditionTrue || c.Reason != reasonWell {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("a brake of many is shown at the group and at its Machines, with what to do (MCM-48)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5, "x")
		s.group("b", 20, "x")
		s.silent(time.Minute, "a-0", "a-1", "a-2")
		p := Judge(s.World)
		check(t, "held", heldOf(p, g), brakeGroup)
		for _, text := range []string{p.Groups[0].Message, condition(s, "a-0").Message} {
			if !strings.Contains(text, "more than 40 % of the Machines of MachineDeployment default/a are unhealthy") || !strings.Contains(text, v1alpha1.AnnotationReplace) {
				t.Errorf("got %q", text)
			}
		}
	})
	for _, tt := range []struct {
		name   string
		change func(*Machine)
		want   string
	}{
		{"no set", func(m *Machine) { m.Group = nil }, "no MachineSet would make another"},
		{"opted out", func(m *Machine) { m.Annotations[v1alpha1.AnnotationSkipHealth] = "true" }, v1alpha1.AnnotationSkipHealth},
		{"switched off", func(m *Machine) { m.Annotations[v1alpha1.AnnotationHealthTimeout] = "0" }, "--health-timeout"},
		{"a rollout", func(m *Machine) { m.Outdated = true }, "the rollout of its MachineDeployment"},
		{"others first", func(m *Machine) {
			m.Group.Replacements = []v1alpha1.HealthReplacement{{Name: "other", UID: "uid-a-4", Started: metav1.NewTime(noon)}}
		}, "replaces 1 at a time"},
	} {
		t.Run("the condition says why a Machine is not replaced: "+tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 5)
			s.silent(long, "a-1")
			s.change(func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, "a-4")
			tt.change(s.machine("a-1"))
			if c := condition(s, "a-1"); c == nil || !strings.Contains(c.Message, tt.want) {
				t.Errorf("got %+v, want a text with %q", c, tt.want)
			}
		})
	}
}

func TestStillDue(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Machine)
		want   bool
	}{
		{"nothing has changed", func(*Machine) {}, true},
		{"the Node is Ready on a live read", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionTrue, 0) }, false},
		{"the Node was Ready in between", func(m *Machine) { setNode(m, corev1.NodeReady, corev1.ConditionFalse, time.Minute) }, false},
		{"the Node is missing on a live read", func(m *Machine) { m.Node = nil }, false},
		{"the Machine is being deleted", func(m *Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }, false},
		{"the Machine was paused", func(m *Machine) { m.Annotations[v1alpha1.AnnotationPaused] = "" }, false},
		{"the Machine was opted out", func(m *Machine) { m.Annotations[v1alpha1.AnnotationSkipHealth] = "true" }, false},
		{"health was switched off for it", func(m *Machine) { m.Annotations[v1alpha1.AnnotationHealthTimeout] = "0" }, false},
		{"another Machine has its name", func(m *Machine) { m.UID = "another" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene()
			s.group("a", 5)
			s.silent(long, "a-1")
			p := Judge(s.World)
			live := Machine{Machine: s.machine("a-1").DeepCopy(), Node: s.machine("a-1").Node.DeepCopy()}
			tt.change(&live)
			check(t, "still due", s.StillDue(p.Replace[0], live.Machine, live.Node, p.Replace[0].Machine.Group), tt.want)
		})
	}
	t.Run("the Node of a server that did not start is Ready on a live read (MCM-44)", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(time.Minute, "a-1")
		m := s.machine("a-1")
		setMachine(m, v1alpha1.ConditionServerReady, corev1.ConditionFalse, serverWontStart, time.Minute)
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "a-1")
		live := Machine{Machine: m.Machine, Node: m.Node.DeepCopy()}
		check(t, "still due", s.StillDue(p.Replace[0], m.Machine, live.Node, m.Group), true)
		setNode(&live, corev1.NodeReady, corev1.ConditionTrue, 0)
		check(t, "still due", s.StillDue(p.Replace[0], m.Machine, live.Node, m.Group), false)
	})
	t.Run("the annotation that asked for it is gone", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		m := s.machine("a-1")
		m.Annotations[v1alpha1.AnnotationReplace] = "true"
		p := Judge(s.World)
		live := m.DeepCopy()
		check(t, "still due", s.StillDue(p.Replace[0], live, m.Node, m.Group), true)
		live.Annotations = nil
		check(t, "still due", s.StillDue(p.Replace[0], live, m.Node, m.Group), false)
	})
}
