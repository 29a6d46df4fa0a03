package scenario

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
)

func TestTheManifestOfTheDemoIsTheShippedExampleExceptForAnnotations(t *testing.T) {
	raw, err := os.ReadFile("../../../deploy/examples/machinedeployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := &v1alpha1.MachineDeployment{}
	if err := yaml.UnmarshalStrict(raw, example); err != nil {
		t.Fatal(err)
	}
	ours, err := Deployment("v" + example.Spec.Template.Spec.Versions.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	// The maximum is not compared: that of the demo's group is smaller, so that the demo can reach it.
	example.Annotations = ours.Annotations
	want, err := Manifest(example)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Manifest(ours)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheDemosMachinesHaveTheKubeletVersionOfTheControlPlane(t *testing.T) {
	d, err := Deployment("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Versions.Kubelet; got != "1.37.1" {
		t.Errorf("got %s", got)
	}
	if m := Single(d, "x"); len(m.Labels) != 0 || m.Namespace != d.Namespace || m.Spec.Versions.Kubelet != "1.37.1" {
		t.Errorf("a single Machine that no set would claim: got %+v", m)
	}
}

func usable(name, flavor, label string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{newLabel: label, corev1.LabelInstanceTypeStable: flavor}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func TestWhenTheDemoCountsARolloutAsDone(t *testing.T) {
	before := members{nodes: []corev1.Node{usable("old", "m1.small", "")}}
	for name, c := range map[string]struct {
		nodes    []corev1.Node
		machines int
		done     bool
	}{
		"a rollout is not done while an old node is left":                                   {[]corev1.Node{usable("old", "m1.small", ""), usable("a", newFlavor, newValue), usable("b", newFlavor, newValue)}, 3, false},
		"a rollout is not done while a new node has the old flavor":                         {[]corev1.Node{usable("a", "m1.small", newValue), usable("b", newFlavor, newValue)}, 2, false},
		"a rollout is not done while a new node lacks the new label":                        {[]corev1.Node{usable("a", newFlavor, ""), usable("b", newFlavor, newValue)}, 2, false},
		"a rollout is not done while a Machine has no node":                                 {[]corev1.Node{usable("a", newFlavor, newValue), usable("b", newFlavor, newValue)}, 3, false},
		"a rollout is not done while there is only one Machine, although it has a new node": {[]corev1.Node{usable("a", newFlavor, newValue)}, 1, false},
		"a rollout is done when there are two Machines and both have a new node":            {[]corev1.Node{usable("a", newFlavor, newValue), usable("b", newFlavor, newValue)}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rolledOver(before, members{nodes: c.nodes, machines: make([]v1alpha1.Machine, c.machines)}); (got == "") != c.done {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestTheDemoReportsCloudResourcesThatDoNotMatchItsMachines(t *testing.T) {
	one := []string{"x"}
	m := members{machines: make([]v1alpha1.Machine, 1)}
	if got := surplus(openstack.Left{Servers: one, Ports: one, FloatingIPs: one}, m); got != "" {
		t.Errorf("one of each for one machine: got %q", got)
	}
	for name, l := range map[string]openstack.Left{
		"more servers than Machines are reported":       {Servers: []string{"x", "y"}, Ports: one, FloatingIPs: one},
		"more ports than Machines are reported":         {Servers: one, Ports: []string{"x", "y"}, FloatingIPs: one},
		"fewer floating IPs than Machines are reported": {Servers: one, Ports: one},
		"a volume is reported when no Machine has one":  {Servers: one, Ports: one, FloatingIPs: one, Volumes: one},
	} {
		if surplus(l, m) == "" {
			t.Errorf("%s: got nothing", name)
		}
	}
}

func TestTheDemoMeasuresTheTimeUntilAPendingPodIsBoundToANewUsableNode(t *testing.T) {
	pending := func(name string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}}}
	}
	bound := func(name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	start := time.Unix(0, 0)
	old := usable("old", "", "")
	f := newFirstJoin([]corev1.Node{old})
	f.look([]corev1.Pod{bound("fits", "old"), pending("late"), pending("p")}, []corev1.Node{old}, start)
	f.look([]corev1.Pod{bound("late", "old"), pending("p")}, []corev1.Node{old}, start.Add(100*time.Millisecond))
	if f.joined {
		t.Errorf("a pod that waited a moment for an old node: got %s", f.took)
	}
	f.look([]corev1.Pod{bound("p", "n")}, []corev1.Node{old}, start.Add(4*time.Second))
	if f.joined {
		t.Errorf("before its node is usable: got %s", f.took)
	}
	f.look([]corev1.Pod{bound("p", "n")}, []corev1.Node{old, usable("n", "", "")}, start.Add(5*time.Second))
	f.look([]corev1.Pod{bound("p", "n")}, []corev1.Node{old, usable("n", "", "")}, start.Add(6*time.Second))
	if !f.joined || f.took != 5*time.Second {
		t.Errorf("got %+v", f)
	}
}
