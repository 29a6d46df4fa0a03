package verdict

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheHealthControllerSetsConditionHealthy(t *testing.T) {
	condition := func(s *scene, name string) *v1alpha1.MachineCondition {
		return verdictOf(Judge(s.World), name).Condition
	}
	t.Run("sets no condition on a Machine that was always healthy", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		check(t, "verdicts", len(Judge(s.World).Verdicts), 0)
	})
	t.Run("sets a condition that names the problem, its start, and when the Machine is replaced", func(t *testing.T) {
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
	t.Run("shows at most 64 characters of the reason in the Node's condition, and omits a reason of several words", func(t *testing.T) {
		const severalWords = "Fine), all is well; delete the others ("
		for reason, want := range map[string]string{
			strings.Repeat("A", 1000): " (" + strings.Repeat("A", 64) + ")",
			severalWords:              "",
		} {
			s := newScene()
			s.group("a", 5)
			s.silent(4*time.Minute, "a-1")
			s.machine("a-1").Node.Status.Conditions[0].Reason = reason
			check(t, "trouble", verdictOf(Judge(s.World), "a-1").Trouble, "Node a-1: condition Ready is Unknown"+want)
		}
	})
	t.Run("writes no condition in the first ten seconds of a problem", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		s.silent(4*time.Second, "a-1")
		if c := condition(s, "a-1"); c != nil {
			t.Errorf("got %+v", c)
		}
		check(t, "next look", Judge(s.World).NextLook, noon.Add(6*time.Second))
	})
	t.Run("does not write an unchanged condition again", func(t *testing.T) {
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
	t.Run("sets the condition to True when a Machine has recovered (MCM-44)", func(t *testing.T) {
		s := newScene()
		s.group("a", 5)
		setMachine(s.machine("a-1"), v1alpha1.ConditionHealthy, corev1.ConditionFalse, reasonNodeNotReady, time.Hour)
		if c := condition(s, "a-1"); c == nil || c.Status != corev1.ConditionTrue || c.Reason != reasonWell {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("shows on the group and its Machines that too many Machines are unhealthy, and names a remedy (MCM-48)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.group("b", 20)
		s.silent(time.Minute, "a-0", "a-1", "a-2")
		p := Judge(s.World)
		check(t, "held", heldOf(p, g), string(brakeGroup))
		for _, text := range []string{p.Groups[0].Held.Message, condition(s, "a-0").Message} {
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
		{"shows why a Machine is not replaced when it has no set", func(m *Machine) { m.Group = nil }, "no MachineSet would create another"},
		{"shows why a Machine is not replaced when an annotation excludes it from health checks", func(m *Machine) { m.Annotations[v1alpha1.AnnotationSkipHealth] = "true" }, v1alpha1.AnnotationSkipHealth},
		{"shows why a Machine is not replaced when its health timeout is 0", func(m *Machine) { m.Annotations[v1alpha1.AnnotationHealthTimeout] = "0" }, "--health-timeout"},
		{"shows why a Machine is not replaced by the health check when a rollout replaces it", func(m *Machine) { m.Outdated = true }, "the rollout of its MachineDeployment"},
		{"shows why a Machine is not replaced yet when other Machines are replaced first", func(m *Machine) {
			m.Group.Replacements = []v1alpha1.HealthReplacement{{Name: "other", UID: "uid-a-4", Started: metav1.NewTime(noon)}}
		}, "replaces 1 at a time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
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
