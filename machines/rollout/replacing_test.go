package rollout

import (
	"strings"
	"testing"
	"time"
)

func TestNodesThatARolloutReplaces(t *testing.T) {
	t.Run("the plan lists Nodes of the old template as being replaced only while the rollout is neither stopped nor paused (MCM-20)", nodesBeingRolled)
}

func nodesBeingRolled(t *testing.T) {
	w := settled(shape{3, "1", "0"})
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("%v are rolled without a rollout", p.Rolled)
	}
	w.stall()
	if p, _ := w.plan(); len(p.Rolled) != 3 || strings.Contains(strings.Join(p.Rolled, " "), "B") {
		t.Errorf("%v are rolled, want the three of A", p.Rolled)
	}
	later := w.now
	w.now = w.now.Add(defaultDeadline + time.Second)
	w.plan()
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("%v are rolled although the rollout has stopped", p.Rolled)
	}
	w.now = later
	w.d.Spec.Paused = true
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("%v are rolled although the rollout is paused", p.Rolled)
	}
	w.d.Spec.Paused = false
	w.template("A")
	w.settle(&strings.Builder{})
	if p, _ := w.plan(); len(p.Rolled) != 0 {
		t.Errorf("%v are rolled although A is wanted again", p.Rolled)
	}
}
