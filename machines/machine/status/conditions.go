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

// SetCondition sets a condition of a Machine, as [v1alpha1.Machine.SetCondition] does.
func SetCondition(m *v1alpha1.Machine, name string, v Verdict, now metav1.Time) {
	m.SetCondition(v1alpha1.MachineCondition{Type: name, Status: v.Status, Reason: v.Reason, Message: v.Message}, now)
}

// ReasonOf returns the reason of a Machine's condition; empty when it has no such condition.
func ReasonOf(m *v1alpha1.Machine, name string) string { return m.Condition(name).Reason }

// MessageOf returns the message of a Machine's condition; empty when it has no such condition.
func MessageOf(m *v1alpha1.Machine, name string) string { return m.Condition(name).Message }
