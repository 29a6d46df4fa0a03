package machine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestASecondConditionReadyOfMachineControllerIsRemoved(t *testing.T) {
	t.Run("the next write of a Machine removes the condition Ready that machine-controller appended, and keeps drover's own (F-104)", func(t *testing.T) {
		b := joined(t, func(*v1alpha1.Machine) {})
		b.nodeReady(corev1.ConditionFalse)
		b.shown()
		m := b.read()
		if find(m, v1alpha1.ConditionReady).Status != corev1.ConditionFalse {
			t.Fatalf("conditions %+v, want Ready False", m.Status.Conditions)
		}
		m.Status.Conditions = append(m.Status.Conditions, v1alpha1.MachineCondition{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue})
		b.update(m)
		b.shown()
		var all []v1alpha1.MachineCondition
		for _, c := range b.read().Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				all = append(all, c)
			}
		}
		if len(all) != 1 || all[0].Status != corev1.ConditionFalse || all[0].Reason == "" {
			t.Errorf("conditions Ready %+v, want only drover's, which is False", all)
		}
	})
}
