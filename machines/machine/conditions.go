package machine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// verdict is what a condition says.
type verdict struct {
	status          corev1.ConditionStatus
	reason, message string
}

// conditions writes a Machine's conditions. The transition time moves with the status alone.
type conditions struct {
	machine *v1alpha1.Machine
	now     metav1.Time
}

func (c conditions) set(name string, v verdict) {
	list := &c.machine.Status.Conditions
	for i := range *list {
		have := &(*list)[i]
		if have.Type != name {
			continue
		}
		if have.Status != v.status || have.LastTransitionTime == nil {
			have.LastTransitionTime = &c.now
		}
		have.Status, have.Reason, have.Message = v.status, v.reason, v.message
		return
	}
	*list = append(*list, v1alpha1.MachineCondition{
		Type: name, Status: v.status, Reason: v.reason, Message: v.message, LastTransitionTime: &c.now,
	})
}

// conditionOf returns a Machine's condition; an empty one when it has no such condition.
func conditionOf(m *v1alpha1.Machine, name string) *v1alpha1.MachineCondition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == name {
			return &m.Status.Conditions[i]
		}
	}
	return &v1alpha1.MachineCondition{}
}

// statusOf returns the status of a Machine's condition; empty when it has no such condition.
func statusOf(m *v1alpha1.Machine, name string) corev1.ConditionStatus {
	return conditionOf(m, name).Status
}

// reasonOf returns the reason of a Machine's condition; empty when it has no such condition.
func reasonOf(m *v1alpha1.Machine, name string) string { return conditionOf(m, name).Reason }

// messageOf returns the message of a Machine's condition; empty when it has no such condition.
func messageOf(m *v1alpha1.Machine, name string) string { return conditionOf(m, name).Message }
