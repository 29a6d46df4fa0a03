package status

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Verdict is the value of a condition.
type Verdict struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// SetCondition sets a condition of a Machine. Its transition time changes only with its status.
func SetCondition(m *v1alpha1.Machine, name string, v Verdict, now metav1.Time) {
	list := &m.Status.Conditions
	for i := range *list {
		have := &(*list)[i]
		if have.Type != name {
			continue
		}
		if have.Status != v.Status || have.LastTransitionTime == nil {
			have.LastTransitionTime = &now
		}
		have.Status, have.Reason, have.Message = v.Status, v.Reason, v.Message
		return
	}
	*list = append(*list, v1alpha1.MachineCondition{
		Type: name, Status: v.Status, Reason: v.Reason, Message: v.Message, LastTransitionTime: &now,
	})
}

// ConditionOf returns a condition of the Machine; an empty condition when the Machine has none of that type.
func ConditionOf(m *v1alpha1.Machine, name string) *v1alpha1.MachineCondition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == name {
			return &m.Status.Conditions[i]
		}
	}
	return &v1alpha1.MachineCondition{}
}

// ReasonOf returns the reason of a Machine's condition; empty when it has no such condition.
func ReasonOf(m *v1alpha1.Machine, name string) string { return ConditionOf(m, name).Reason }

// MessageOf returns the message of a Machine's condition; empty when it has no such condition.
func MessageOf(m *v1alpha1.Machine, name string) string { return ConditionOf(m, name).Message }
