package autoscaler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/proto"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const startupTaint = "node.syseleven.de/not-ready"

func size(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods: resource.MustParse("110"),
	}
}

func readyOf(name string, group string, pods ...*corev1.Pod) NodeView {
	return NodeView{Group: group, Pods: pods, Startup: 15 * time.Minute, Taints: []string{startupTaint}, Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": group}, CreationTimestamp: metav1.NewTime(start)},
		Spec:       corev1.NodeSpec{ProviderID: "openstack:///" + name},
		Status: corev1.NodeStatus{
			Allocatable: size("2", "4Gi"),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
}

func podOf(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
			{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)},
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
}

func podsOf(n int, cpu string) (out []*corev1.Pod) {
	for i := range n {
		out = append(out, podOf(fmt.Sprintf("p%d", i), cpu))
	}
	return out
}

func groupNamed(id string, low, target, high int) GroupView {
	return GroupView{
		Group: Group{ID: id, Min: low, Max: high}, Target: target, Template: readyOf("template", id).Node, Provision: 15 * time.Minute,
	}
}

// scaleUp returns the increase on which the simulated autoscaler decides without prices and without balancing. It reads the
// groups' sizes from the view.
func scaleUp(v *View, m *memory) *Increase {
	best := mostHelpful(growth{view: v, memory: m}.ways())
	if best == nil {
		return nil
	}
	return &best.increases(map[string]int{best.group.ID: best.group.Target})[0]
}

func TestWhichGroupGrowsInAScaleUp(t *testing.T) {
	tainted := groupNamed("tainted", 0, 0, 5)
	tainted.Template = tainted.Template.DeepCopy()
	tainted.Template.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	noTemplate := groupNamed("noTemplate", 0, 0, 5)
	noTemplate.Template = nil
	large := groupNamed("a", 0, 0, 5)
	large.Template = large.Template.DeepCopy()
	large.Template.Status.Allocatable = size("8", "32Gi")
	selecting := podsOf(1, "1")
	selecting[0].Spec.NodeSelector = map[string]string{"group": "b"}
	for name, c := range map[string]struct {
		view View
		want string
	}{
		"no group grows when no pod is pending":                                                 {View{Groups: []GroupView{groupNamed("a", 0, 0, 5)}}, ""},
		"the group grows by as many nodes as first-fit packing of the pending pods needs":       {View{Groups: []GroupView{groupNamed("a", 0, 0, 5)}, Pending: podsOf(5, "1")}, "a+3"},
		"the group does not grow beyond its maximum":                                            {View{Groups: []GroupView{groupNamed("a", 0, 4, 5)}, Pending: podsOf(5, "1")}, "a+1"},
		"the second group grows when the first group is at its maximum":                         {View{Groups: []GroupView{groupNamed("a", 0, 5, 5), groupNamed("b", 0, 0, 5)}, Pending: podsOf(1, "1")}, "b+1"},
		"no group grows for a pod that is larger than any node":                                 {View{Groups: []GroupView{groupNamed("a", 0, 0, 5)}, Pending: podsOf(1, "8")}, ""},
		"a group does not grow for a pod that does not tolerate the taint of the group's nodes": {View{Groups: []GroupView{tainted}, Pending: podsOf(1, "1")}, ""},
		"the group whose nodes match the pod's node selector grows":                             {View{Groups: []GroupView{groupNamed("a", 0, 0, 5), groupNamed("b", 0, 0, 5)}, Pending: selecting}, "b+1"},
		"the group with smaller nodes grows when one node of either group is enough":            {View{Groups: []GroupView{large, groupNamed("b", 0, 0, 5)}, Pending: podsOf(1, "1")}, "b+1"},
		"a group without a template does not grow":                                              {View{Groups: []GroupView{noTemplate}, Pending: podsOf(1, "1")}, ""},
		"the group grows only for the pods that do not fit on ready nodes": {
			View{Groups: []GroupView{groupNamed("a", 0, 1, 5)}, Nodes: []NodeView{readyOf("n1", "a")}, Pending: podsOf(3, "1")}, "a+1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if up := scaleUp(&c.view, newMemory()); up != nil {
				got = fmt.Sprintf("%s+%d", up.Group, up.Delta)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestScaleUpCountsUpcomingNodes(t *testing.T) {
	v := &View{Now: start, Groups: []GroupView{groupNamed("a", 0, 3, 9)}, Pending: podsOf(6, "1")}
	m := newMemory()
	m.grew("a", 3, start)
	if up := scaleUp(v, m); up != nil {
		t.Errorf("scaleUp() with three upcoming nodes = %+v, want nil", up)
	}
	if up := scaleUp(v, newMemory()); up == nil || up.Delta != 3 {
		t.Errorf("scaleUp() after a restart = %+v, want a repeated scale-up", up)
	}
}

func TestScaleUpIgnoresAGroupDuringItsBackOff(t *testing.T) {
	v := &View{Now: start, Groups: []GroupView{groupNamed("a", 0, 0, 9), groupNamed("b", 0, 0, 9)}, Pending: podsOf(1, "1")}
	m := newMemory()
	m.stumbled("a", start, Options{InitialBackoff: time.Minute, MaxBackoff: time.Hour})
	if up := scaleUp(v, m); up == nil || up.Group != "b" {
		t.Errorf("got %+v, want group b", up)
	}
	v.Now = start.Add(time.Minute)
	if up := scaleUp(v, m); up == nil || up.Group != "a" {
		t.Errorf("after the back-off: got %+v, want group a", up)
	}
}

func TestWhichNodesAreUnneeded(t *testing.T) {
	bare := podOf("bare", "100m")
	bare.OwnerReferences = nil
	disabled := readyOf("n1", "a")
	disabled.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
	for name, c := range map[string]struct {
		nodes    []NodeView
		low      int
		inFlight int
		pending  []*corev1.Pod
		want     []string
	}{
		"an empty node is unneeded": {[]NodeView{readyOf("n1", "a")}, 0, 0, nil, []string{"n1"}},
		"in a group of two nodes with a minimum of one, only one node is unneeded":                  {[]NodeView{readyOf("n1", "a"), readyOf("n2", "a")}, 1, 0, nil, []string{"n1"}},
		"no node is unneeded when the removals in progress already reduce its group to its minimum": {[]NodeView{readyOf("n1", "a"), readyOf("n2", "a")}, 0, 2, nil, nil},
		"a node whose utilization is above the threshold is needed":                                 {[]NodeView{readyOf("n1", "a", podOf("p", "1500m"))}, 0, 0, nil, nil},
		"a node is unneeded when its pods fit on another node":                                      {[]NodeView{readyOf("n1", "a", podOf("p", "100m")), readyOf("n2", "a", podOf("q", "1500m"))}, 0, 0, nil, []string{"n1"}},
		"a node is needed when its pods fit nowhere else":                                           {[]NodeView{readyOf("n1", "a", podOf("p", "900m")), readyOf("n2", "a", podOf("q", "1500m"))}, 0, 0, nil, nil},
		"a node is needed when it runs a pod without a controller":                                  {[]NodeView{readyOf("n1", "a", bare), readyOf("n2", "x")}, 0, 0, nil, nil},
		"a node with the annotation scale-down-disabled is needed":                                  {[]NodeView{disabled}, 0, 0, nil, nil},
		"a node is needed when a pending pod fits on the node":                                      {[]NodeView{readyOf("n1", "a"), readyOf("n2", "a")}, 0, 0, podsOf(1, "1"), []string{"n2"}},
		"a node without a group is never unneeded":                                                  {[]NodeView{readyOf("n1", "")}, 0, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Now: start, Nodes: c.nodes, Pending: c.pending}
			settings := map[string]Settings{}
			for i := range c.nodes {
				c.nodes[i].Min = c.low
				settings[c.nodes[i].Name] = Settings{Threshold: 0.5}
			}
			var got []string
			for _, r := range unneeded(v, newMemory(), settings, spareOf(v, map[string]int{"a": len(c.nodes)}, map[string]int{"a": c.inFlight})) {
				got = append(got, r.Node.Name)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAnInstanceIsUnregisteredWhenNoNodeHasExactlyItsProviderID(t *testing.T) {
	g := groupNamed("a", 0, 4, 9)
	g.Instances = []Instance{
		{ID: "openstack:///n1", State: proto.InstanceStatus_instanceRunning},
		{ID: "openstack:///N1", State: proto.InstanceStatus_instanceRunning},
		{ID: "openstack:///going", State: proto.InstanceStatus_instanceDeleting},
		{ID: "openstack:///failed", State: proto.InstanceStatus_instanceCreating, Code: "QuotaExceeded"},
	}
	v := &View{Now: start, Groups: []GroupView{g}, Nodes: []NodeView{readyOf("n1", "a")}}
	if got := v.unregistered(&v.Groups[0]); len(got) != 1 || got[0].ID != "openstack:///N1" {
		t.Errorf("unregistered: got %v", got)
	}
	if got := v.Groups[0].failed(); len(got) != 1 || got[0].Code != "QuotaExceeded" {
		t.Errorf("failed: got %v", got)
	}
}

func TestTheTimeoutOfAnInstanceWithoutANodeStartsAgainWhenTheInstanceIsListedAgain(t *testing.T) {
	g := groupNamed("a", 0, 2, 9)
	g.Instances = []Instance{{ID: "x", State: proto.InstanceStatus_instanceCreating}}
	v := &View{Now: start, Groups: []GroupView{g}}
	m := newMemory()
	m.observe(v)
	v.Now = start.Add(15 * time.Minute)
	m.observe(v)
	if got := m.longUnregistered(v, &v.Groups[0]); len(got) != 1 {
		t.Errorf("longUnregistered() after the provisioning time = %v", got)
	}
	if got := corrections(v, m); len(got) != 1 || got[0].Delta != 2 {
		t.Errorf("corrections() with target size 2, one instance and no node = %v", got)
	}
	v.Groups[0].Instances = nil
	m.observe(v)
	v.Groups[0].Instances = g.Instances
	m.observe(v)
	if got := m.longUnregistered(v, &v.Groups[0]); len(got) != 0 {
		t.Errorf("longUnregistered() of an instance that was missing once = %v, want none", got)
	}
}

func TestHowManyUnreadyNodesStopScaling(t *testing.T) {
	nodes := func(ready, unready int) (out []NodeView) {
		for i := range ready + unready {
			n := readyOf(fmt.Sprint(i), "a")
			if i >= ready {
				n.Status.Conditions = nil
			}
			out = append(out, n)
		}
		return out
	}
	for name, c := range map[string]struct {
		ready, unready int
		want           bool
	}{
		"scaling continues when all three nodes are unready, because three unready nodes are tolerated": {0, 3, true},
		"scaling stops when four of five nodes are unready, which is more than 45 %":                    {1, 4, false},
		"scaling continues when four of twelve nodes are unready, which is less than 45 %":              {8, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := healthy(&View{Now: start.Add(time.Hour), Nodes: nodes(c.ready, c.unready)}); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
