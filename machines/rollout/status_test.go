package rollout

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestARolloutThatWaitsForNodesToStart(t *testing.T) {
	const why = "the cloud-controller-manager has not initialized the Node"
	w := settled(shape{3, "1", "0"})
	w.template("B")
	w.broken["B"] = true
	w.settle(&strings.Builder{})
	for _, m := range w.machines {
		if _, ready := ReadySince(m); !ready {
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
			m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionFalse,
				Reason: "NodeStarting", Message: why, LastTransitionTime: &metav1.Time{Time: w.now}}}
		}
	}
	t.Run("stands still with one new Machine and replaces nothing (F-47)", func(t *testing.T) {
		deleted := len(w.deleted)
		for range 3 {
			w.now = w.now.Add(time.Minute)
			w.settle(&strings.Builder{})
		}
		if len(w.machines) != 4 || len(w.deleted) != deleted {
			t.Errorf("%d Machines, %d were deleted", len(w.machines), len(w.deleted)-deleted)
		}
	})
	t.Run("names the reason once the deadline is over (F-47)", func(t *testing.T) {
		w.now = w.now.Add(defaultDeadline + time.Second)
		p, _ := w.plan()
		for _, name := range []string{"Progressing", "Degraded"} {
			if c := condition(p, name); c.Reason != ReasonDeadline || !strings.Contains(c.Message, "NodeStarting: "+why) {
				t.Errorf("%+v", c)
			}
		}
	})
}
