package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// noon is the time at which Judge decides.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// scene is the input of Judge, with methods that set up its groups, Machines and Nodes.
type scene struct {
	*World
}

// newScene returns a scene without Machines, in which drover's data has been trustworthy for a day.
func newScene() *scene {
	w := &World{Now: noon, Began: noon.Add(-24 * time.Hour), Settings: Settings{
		Timeout: 10 * time.Minute, StartTimeout: 30 * time.Minute, MaxReplacing: intstr.FromInt32(1), MaxUnhealthy: 40, Join: 10 * time.Minute,
		Conditions: []corev1.NodeConditionType{"KernelDeadlock", "ReadonlyFilesystem"},
	}, Seen: Seen{}}
	return &scene{w}
}

// group adds a MachineDeployment with healthy Machines name-0, name-1 and so on.
func (s *scene) group(name string, size int) *Group {
	meta := &metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("group-" + name), Annotations: map[string]string{}}
	g := &Group{Object: meta, Kind: "MachineDeployment", Size: size}
	s.Groups = append(s.Groups, g)
	for i := range size {
		m := newMachine(fmt.Sprintf("%s-%d", name, i))
		m.Group = g
		s.Machines = append(s.Machines, m)
	}
	return g
}

// newMachine returns a healthy Machine with its Node.
func newMachine(name string) Machine {
	long := metav1.NewTime(noon.Add(-48 * time.Hour))
	uid := types.UID("uid-" + name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node-" + uid, Labels: map[string]string{v1alpha1.LabelOwnedBy: string(uid)}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: long}}
	return Machine{Node: node, Machine: &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid, Labels: map[string]string{}, Annotations: map[string]string{}},
		Status: v1alpha1.MachineStatus{
			NodeRef: &corev1.ObjectReference{Name: name, UID: node.UID}, Phase: ptr.To(v1alpha1.PhaseRunning),
			Conditions: []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionServerReady, Status: corev1.ConditionTrue, Reason: "ServerActive"}},
		},
	}}
}

// machine returns the Machine with the given name.
func (s *scene) machine(name string) *Machine {
	i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.Name == name })
	return &s.Machines[i]
}

// change applies a change to Machines by name. A name that ends in * matches all names with that prefix.
func (s *scene) change(with func(*Machine), names ...string) {
	for _, name := range names {
		prefix, all := strings.CutSuffix(name, "*")
		for i := range s.Machines {
			if m := &s.Machines[i]; m.Name == name || all && strings.HasPrefix(m.Name, prefix) {
				with(m)
			}
		}
	}
}

// silent makes the Nodes of Machines not Ready for the given time up to noon. drover noticed that immediately.
func (s *scene) silent(age time.Duration, names ...string) {
	s.change(func(m *Machine) {
		setNode(m, corev1.NodeReady, corev1.ConditionUnknown, age)
		s.noticed(m, age)
	}, names...)
}

// starting makes Machines Machines whose Node has registered the given time before noon, and has not become Ready.
func (s *scene) starting(age time.Duration, names ...string) {
	s.change(func(m *Machine) {
		m.Status.Phase = ptr.To(v1alpha1.PhaseJoined)
		s.noticed(m, age)
		setNode(m, corev1.NodeReady, corev1.ConditionFalse, age)
	}, names...)
}

// noticed makes drover have seen for the given time up to noon that a Machine is unhealthy or starting.
func (s *scene) noticed(m *Machine, age time.Duration) {
	for _, state := range []state{unhealthy, starting} {
		s.Seen[sighting{m.UID, state}] = noon.Add(-age)
	}
}

// setNode sets a condition of the Machine's Node.
func setNode(m *Machine, name corev1.NodeConditionType, status corev1.ConditionStatus, age time.Duration) {
	c := corev1.NodeCondition{Type: name, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(noon.Add(-age))}
	for i := range m.Node.Status.Conditions {
		if m.Node.Status.Conditions[i].Type == name {
			m.Node.Status.Conditions[i] = c
			return
		}
	}
	m.Node.Status.Conditions = append(m.Node.Status.Conditions, c)
}

// setMachine sets a condition of the Machine.
func setMachine(m *Machine, name string, status corev1.ConditionStatus, reason string, age time.Duration) {
	at := metav1.NewTime(noon.Add(-age))
	c := v1alpha1.MachineCondition{Type: name, Status: status, Reason: reason, LastTransitionTime: &at}
	m.Status.Conditions = slices.DeleteFunc(m.Status.Conditions, func(have v1alpha1.MachineCondition) bool { return have.Type == name })
	m.Status.Conditions = append(m.Status.Conditions, c)
}

// gone removes the Nodes of Machines, and sets the Machines' conditions as the Machine controller does for a missing Node.
func (s *scene) gone(age time.Duration, names ...string) {
	s.change(func(m *Machine) {
		m.Node = nil
		s.noticed(m, age)
		setMachine(m, v1alpha1.ConditionReady, corev1.ConditionUnknown, reasonNodeMissing, age)
	}, names...)
}

// began adds replacements of Machines to the record of the group g. They started the given time before noon.
func (s *scene) began(g *Group, age time.Duration, names ...string) {
	for _, name := range names {
		g.Replacements = append(g.Replacements, v1alpha1.HealthReplacement{Name: name, UID: types.UID("uid-" + name), Started: metav1.NewTime(noon.Add(-age))})
	}
}

// remove removes Machines from the scene.
func (s *scene) remove(names ...string) {
	s.Machines = slices.DeleteFunc(s.Machines, func(m Machine) bool { return slices.Contains(names, m.Name) })
}

// replaced returns the names of the Machines to replace, in order within each group.
func replaced(p Plan) string {
	var names []string
	for _, gp := range p.Groups {
		for _, v := range gp.Replace {
			names = append(names, v.Machine.Name)
		}
	}
	return strings.Join(names, " ")
}

// verdictOf returns the verdict of a Machine; an empty verdict when the plan has none.
func verdictOf(p Plan, name string) Verdict {
	for _, v := range p.Verdicts {
		if v.Machine.Name == name {
			return *v
		}
	}
	return Verdict{}
}

// heldOf returns why the plan replaces no Machine of a group; empty when nothing prevents replacements.
func heldOf(p Plan, g *Group) string {
	for _, gp := range p.Groups {
		if gp.Group == g && gp.Held != nil {
			return gp.Held.Reason
		}
	}
	return ""
}

// record carries a plan out as far as the record of a group is concerned, and returns the new record.
func record(p Plan, g *Group) []v1alpha1.HealthReplacement {
	for i := range p.Groups {
		gp := p.Groups[i]
		if gp.Group != g {
			continue
		}
		for _, v := range gp.Replace {
			gp.Record(v, noon)
		}
		return gp.Replacements
	}
	return nil
}

// recordOf returns the names of the Machines in the new record of a group's replacements.
func recordOf(p Plan, g *Group) string {
	var names []string
	for _, e := range record(p, g) {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
