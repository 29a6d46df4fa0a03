package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Verdict is the value of a condition.
type Verdict struct {
	Status          corev1.ConditionStatus
	Reason, Message string
}

// SetCondition sets a condition of a Machine. Its transition time changes only with its status. Afterwards the Machine has one condition
// of the type: the others, which machine-controller appended, are removed.
func SetCondition(m *v1alpha1.Machine, name string, v Verdict, now metav1.Time) {
	list := &m.Status.Conditions
	typed := func(c v1alpha1.MachineCondition) bool { return c.Type == name }
	i := slices.IndexFunc(*list, typed)
	if i < 0 {
		i, *list = len(*list), append(*list, v1alpha1.MachineCondition{Type: name})
	}
	have := &(*list)[i]
	if have.Status != v.Status || have.LastTransitionTime == nil {
		have.LastTransitionTime = &now
	}
	have.Status, have.Reason, have.Message = v.Status, v.Reason, v.Message
	*list = append((*list)[:i+1], slices.DeleteFunc((*list)[i+1:], typed)...)
}

// ReasonOf returns the reason of a Machine's condition; empty when it has no such condition.
func ReasonOf(m *v1alpha1.Machine, name string) string { return m.Condition(name).Reason }

// MessageOf returns the message of a Machine's condition; empty when it has no such condition.
func MessageOf(m *v1alpha1.Machine, name string) string { return m.Condition(name).Message }
