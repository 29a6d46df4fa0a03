package rollout

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestARolloutWhoseNewNodesDoNotWork(t *testing.T) {
	for name, tt := range map[string]struct {
		conditions []v1alpha1.MachineCondition
		why        string
	}{
		"do not finish their start (F-47)": {[]v1alpha1.MachineCondition{
			{Type: v1alpha1.ConditionReady, Status: corev1.ConditionFalse, Reason: "NodeStarting", Message: "the cloud-controller-manager has not initialized the Node"},
		}, "NodeStarting: the cloud-controller-manager has not initialized the Node"},
		"are Ready and unhealthy": {[]v1alpha1.MachineCondition{
			{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue},
			{Type: v1alpha1.ConditionHealthy, Status: corev1.ConditionFalse, Reason: "KernelDeadlock", Message: "docker hung"},
		}, "KernelDeadlock: docker hung"},
	} {
		w := settled(shape{3, "1", "0"})
		w.stall()
		for _, m := range w.machines {
			if _, ready := ReadySince(m); !ready {
				m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
				m.Status.Conditions = tt.conditions
				for i := range m.Status.Conditions {
					m.Status.Conditions[i].LastTransitionTime = &metav1.Time{Time: w.now}
				}
			}
		}
		t.Run("it creates one Machine and deletes no old one while the new Nodes "+name, func(t *testing.T) {
			deleted := len(w.deleted)
			for range 3 {
				w.now = w.now.Add(time.Minute)
				w.settle(&strings.Builder{})
			}
			if len(w.machines) != 4 || len(w.deleted) != deleted {
				t.Errorf("%d Machines, %d were deleted", len(w.machines), len(w.deleted)-deleted)
			}
		})
		t.Run("the conditions Progressing and Degraded show why once it has missed its deadline while the new Nodes "+name, func(t *testing.T) {
			w.now = w.now.Add(defaultDeadline + time.Second)
			p, _ := w.plan()
			for _, kind := range []string{"Progressing", "Degraded"} {
				if c := condition(p, kind); c.Reason != ReasonDeadline || !strings.Contains(c.Message, tt.why) {
					t.Errorf("%+v", c)
				}
			}
		})
		t.Run("a plan computed again from its record counts the same Nodes as unavailable while they "+name, func(t *testing.T) {
			for _, m := range w.machines {
				if unhealthy(m) != unhealthy(slimMachine(m)) {
					t.Errorf("the record of %s has %+v", m.Name, slimMachine(m).Status.Conditions)
				}
			}
		})
	}
}

// Two minutes after its last progress a deployment shows what it waits for. Its Progressing condition has the time of the last progress.
func TestADeploymentThatWaitsShowsWhatForWithinTwoMinutes(t *testing.T) {
	condemned := func(w *simulation) {
		w.slow = true
		w.template("B")
		w.settle(&strings.Builder{})
		for _, m := range w.machines {
			if m.DeletionTimestamp != nil {
				m.Status.Conditions = append(m.Status.Conditions, v1alpha1.MachineCondition{Type: v1alpha1.ConditionDeleting, Status: "True",
					Reason: "DrainingNode", Message: "evictions are refused: ns/p: a budget"})
			}
		}
	}
	for name, tt := range map[string]struct {
		shape  shape
		change func(w *simulation)
		want   string
	}{
		"a new Machine without a Node": {shape{3, "1", "0"}, func(w *simulation) {
			w.stall()
			for _, m := range w.machines {
				if _, ready := ReadySince(m); !ready {
					m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: "NoServer", Message: "no more cores; raise the quota"}}
				}
			}
		}, "NoServer: no more cores; raise the quota"},
		"a new Machine without a status": {shape{3, "1", "0"}, func(w *simulation) {
			w.stall()
		}, "look at the conditions of this Machine"},
		"old Machines that are being deleted": {shape{3, "0", "1"}, condemned, "DrainingNode: evictions are refused: ns/p: a budget"},
		"a freeze": {shape{3, "1", "0"}, func(w *simulation) {
			w.stall()
			w.sets[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Message: "too many"}}
		}, "see the condition " + v1alpha1.ConditionFrozen},
		"spec.paused": {shape{3, "1", "0"}, func(w *simulation) {
			w.d.Spec.Paused = true
			w.template("B")
		}, "set it to false"},
	} {
		t.Run("it waits for "+name+" (F-114)", func(t *testing.T) {
			w := settled(tt.shape)
			tt.change(w)
			began := w.now
			for range 2 {
				w.settle(&strings.Builder{})
				w.now = w.now.Add(time.Minute)
			}
			p, _ := w.plan()
			c := condition(p, "Progressing")
			if !strings.Contains(c.Message, tt.want) || c.LastTransitionTime.After(w.now) || began.Sub(c.LastTransitionTime.Time) > time.Minute {
				t.Errorf("at %s, since %s, it shows %+v, want %q", w.now, began, c, tt.want)
			}
		})
	}
}

func TestStatusOfADeployment(t *testing.T) {
	t.Run("Progressing and Available are True for a complete deployment (MC-27)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		p, _ := w.plan()
		if c := condition(p, "Progressing"); c.Status != "True" || c.Reason != ReasonComplete {
			t.Errorf("Progressing is %+v", c)
		}
		if c := condition(p, "Available"); c.Status != "True" || p.Status.ObservedGeneration != w.d.Generation {
			t.Errorf("Available is %+v", c)
		}
	})
	t.Run("Progressing is False when a stuck rollout misses its deadline, and reports completion when the rollout completes later (MC-27, MCM-17, CAPI-47)", func(t *testing.T) {
		w := settled(shape{3, "1", "1"})
		w.stall()
		p, _ := w.plan()
		// The first check shows what the rollout waits for, and the second that its deadline is over.
		for _, most := range []time.Duration{quiet, defaultDeadline + time.Second} {
			if p.RequeueAfter <= 0 || p.RequeueAfter > most {
				t.Errorf("next check in %s, want at most %s", p.RequeueAfter, most)
			}
			w.now = w.now.Add(p.RequeueAfter)
			p, _ = w.plan()
		}
		if c := condition(p, "Progressing"); c.Status != "False" || c.Reason != ReasonDeadline {
			t.Errorf("Progressing is %+v", c)
		}
		w.broken["B"] = false
		w.settle(&strings.Builder{})
		p, _ = w.plan()
		if c := condition(p, "Progressing"); c.Reason != ReasonComplete || p.Status.UpdatedReplicas != 3 {
			t.Errorf("Progressing is %+v, updated %d", c, p.Status.UpdatedReplicas)
		}
	})
	t.Run("Degraded is True for a failed Machine, a set's error or a missed deadline (MC-27)", func(t *testing.T) {
		w := settled(shape{3, "1", "1"})
		p, _ := w.plan()
		if c := condition(p, "Degraded"); c.Status != "False" || c.Reason != ReasonHealthy {
			t.Errorf("Degraded is %+v", c)
		}
		reason := "Quota"
		w.machines[1].Status.ErrorReason = &reason
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonFailed || !strings.Contains(c.Message, w.machines[1].Name) {
			t.Errorf("Degraded is %+v", c)
		}
		w.machines[1].Status.ErrorReason = nil
		w.sets[0].Status.ErrorReason, w.sets[0].Status.ErrorMessage = new("CreateError"), new("exceeded quota")
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonSetError || !strings.Contains(c.Message, "exceeded quota") {
			t.Errorf("Degraded is %+v", c)
		}
		w.sets[0].Status.ErrorReason = nil
		w.stall()
		w.now = w.now.Add(defaultDeadline + time.Second)
		p, _ = w.plan()
		if c := condition(p, "Degraded"); c.Status != "True" || c.Reason != ReasonDeadline {
			t.Errorf("Degraded is %+v", c)
		}
	})
	t.Run("Progressing is Unknown while the deployment is paused (MCM-16)", func(t *testing.T) {
		w := settled(shape{3, "1", "0"})
		w.d.Spec.Paused = true
		w.template("B")
		p, wrote := w.plan()
		if c := condition(p, "Progressing"); c.Status != "Unknown" || c.Reason != ReasonPaused || wrote {
			t.Errorf("Progressing is %+v, wrote changes: %v", c, wrote)
		}
	})
	t.Run("a Machine does not count as available before it has been Ready for minReadySeconds (MC-37, MCM-22a)", func(t *testing.T) {
		w := settled(shape{2, "1", "0"})
		n := int32(30)
		w.d.Spec.MinReadySeconds = &n
		w.now = w.now.Add(10 * time.Second)
		p, _ := w.plan()
		if p.Status.ReadyReplicas != 2 || p.Status.AvailableReplicas != 0 || p.RequeueAfter != 20*time.Second {
			t.Errorf("%d ready, %d available, next check in %s", p.Status.ReadyReplicas, p.Status.AvailableReplicas, p.RequeueAfter)
		}
	})
}
