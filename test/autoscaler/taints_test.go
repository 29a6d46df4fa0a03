package autoscaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// withTaints returns an empty node of group a with these taints.
func withTaints(name string, keys ...string) NodeView {
	n := readyOf(name, "a")
	for _, key := range keys {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

func TestWhichNodesTheAutoscalerCountsAsReady(t *testing.T) {
	cordoned := withTaints("n", startupTaint)
	cordoned.Spec.Unschedulable = true
	pressed := withTaints("n")
	pressed.Status.Conditions = append(pressed.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
	for name, c := range map[string]struct {
		node      NodeView
		wantReady bool
	}{
		"a node without taints counts as ready":                                                      {withTaints("n"), true},
		"a node with only the cloud provider's taint uninitialized counts as ready (F-47)":           {withTaints("n", taintUninitialized), true},
		"a node with a taint that the autoscaler does not know counts as ready (F-47)":               {withTaints("n", "example.com/agent-not-ready"), true},
		"a node with the taint that the flag --startup-taint names counts as not started (F-47)":     {withTaints("n", taintUninitialized, startupTaint), false},
		"a node with a taint under the autoscaler's prefix for startup taints counts as not started": {withTaints("n", "startup-taint.cluster-autoscaler.kubernetes.io/x"), false},
		"a cordoned node with a startup taint counts as ready":                                       {cordoned, true},
		"a node with a taint under the autoscaler's prefix for status taints counts as ready":        {withTaints("n", "status-taint.cluster-autoscaler.kubernetes.io/x"), true},
		"a node with the taint not-ready counts as not started":                                      {withTaints("n", corev1.TaintNodeNotReady), false},
		"a node with the taint network-unavailable counts as not started":                            {withTaints("n", corev1.TaintNodeNetworkUnavailable), false},
		"a node with the taint unreachable and the condition Ready counts as ready":                  {withTaints("n", corev1.TaintNodeUnreachable), true},
		"a node with the condition DiskPressure counts as not started":                               {pressed, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Now: start.Add(time.Minute), Groups: []GroupView{groupNamed("a", 0, 1, 5)}, Nodes: []NodeView{c.node}}
			r := v.readiness(&v.Groups[0])
			if gotReady := r.ready == 1; gotReady != c.wantReady || r.ready+r.notStarted != 1 {
				t.Errorf("the node counts as %+v, want ready %v, and not started otherwise", r, c.wantReady)
			}
		})
	}
}

func TestScaleUpForAPodWhenTheGroupsOnlyNodeTakesNoPods(t *testing.T) {
	for name, c := range map[string]struct {
		taints []string
		grows  bool
	}{
		"a group grows because its node with the taint uninitialized neither counts as upcoming nor takes the pod (F-47)": {[]string{taintUninitialized}, true},
		"a group's node with the startup taint counts as upcoming, so the group does not grow (F-47)":                     {[]string{taintUninitialized, startupTaint}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{
				Now: start.Add(time.Minute), Groups: []GroupView{groupNamed("a", 0, 1, 5)},
				Nodes: []NodeView{withTaints("n", c.taints...)}, Pending: podsOf(1, "1"),
			}
			m := newMemory()
			m.grew("a", 1, start)
			if got := scaleUp(v, m); (got != nil) != c.grows {
				t.Errorf("the scale-up is %+v, want one: %v", got, c.grows)
			}
		})
	}
}

func TestATemplateMadeFromANodeHasNoTaintsThatDescribeTheNodesState(t *testing.T) {
	n := withTaints("n", taintUninitialized, startupTaint, corev1.TaintNodeUnreachable, TaintToBeDeleted,
		"status-taint.cluster-autoscaler.kubernetes.io/x", "ignore-taint.cluster-autoscaler.kubernetes.io/x",
		"node.kubernetes.io/out-of-service", "example.com/agent-not-ready")
	var left []string
	for _, taint := range asTemplate(n.Node, n.Taints).Spec.Taints {
		left = append(left, taint.Key)
	}
	if len(left) != 2 || left[0] != "node.kubernetes.io/out-of-service" || left[1] != "example.com/agent-not-ready" {
		t.Errorf("the template has the taints %v, want only those that do not describe the state of one node", left)
	}
}

func TestWhichStartingNodesAreCandidatesForRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		ordered bool
		want    int
	}{
		"a node that this autoscaler process requested is not a candidate for removal while it has the startup taint":   {true, 0},
		"a node that this autoscaler process did not request is a candidate for removal while it has the startup taint": {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{Now: start.Add(time.Minute), Groups: []GroupView{groupNamed("a", 0, 1, 5)}, Nodes: []NodeView{withTaints("n", startupTaint)}}
			m := newMemory()
			if c.ordered {
				m.grew("a", 1, start)
			}
			got := unneeded(v, m, map[string]Settings{"n": {Threshold: 0.5, UnreadyTime: 20 * time.Minute}}, map[string]int{"a": 1})
			if len(got) != c.want || len(got) > 0 && got[0].After != 20*time.Minute {
				t.Errorf("unneeded() = %+v, want %d with the time of unready nodes", got, c.want)
			}
		})
	}
}
