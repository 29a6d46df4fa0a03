package machine_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestANodeGetsReservedLabelsOnlyWhenTheOperatorAllowsThem(t *testing.T) {
	const role = "node-role.kubernetes.io/control-plane"
	// A Machine's own labels become labels of its Node, too.
	reserved := func(m *v1alpha1.Machine) {
		owned(m)
		m.Labels = map[string]string{role: ""}
		m.Spec.Metadata.Labels = map[string]string{restricted: "high", "team": "blue"}
	}
	t.Run("the Node gets no reserved label of its Machine, and condition Warnings names each of them (F-89)", func(t *testing.T) {
		b := joined(t, reserved)
		b.shown()
		n, c := b.node(), find(b.read(), v1alpha1.ConditionWarnings)
		if _, ok := n.Labels[role]; ok || n.Labels[restricted] != "" || n.Labels["team"] != "blue" {
			t.Errorf("labels %v", n.Labels)
		}
		if !strings.Contains(c.Message, role+": is not put on the Node") || !strings.Contains(c.Message, restricted+": is not put on the Node") {
			t.Errorf("warnings: %q", c.Message)
		}
	})
	t.Run("the Node gets the reserved labels that --allowed-node-labels lists, and no warning (F-89)", func(t *testing.T) {
		b := newBench(t, reserved)
		b.allow(role, restricted)
		b.join()
		b.shown()
		n := b.node()
		if _, ok := n.Labels[role]; !ok || n.Labels[restricted] != "high" {
			t.Errorf("labels %v", n.Labels)
		}
		if c := find(b.read(), v1alpha1.ConditionWarnings); c.Message != "" {
			t.Errorf("warnings: %q", c.Message)
		}
	})
	t.Run("a reserved label that drover has put on the Node is removed when it is no longer allowed, and one of an administrator stays (F-89)", func(t *testing.T) {
		b := newBench(t, reserved)
		b.allow(restricted)
		b.join()
		b.shown()
		n := b.node()
		n.Labels[role] = ""
		b.update(n)
		before := maps.Clone(b.node().Labels)
		b.allow()
		b.shown()
		after := b.node().Labels
		if _, ok := after[role]; before[restricted] != "high" || after[restricted] != "" || !ok {
			t.Errorf("labels before: %v; after: %v", before, after)
		}
	})
}

// allow restarts the controller with these keys in --allowed-node-labels.
func (b *bench) allow(keys ...string) {
	o := b.options
	o.Nodes.AllowedLabels = keys
	b.start(o)
}
