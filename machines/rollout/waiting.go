package rollout

import (
	"fmt"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// waiting describes what the rollout waits for: the first Machine of the current template, by name, that is not available
// and says why. It returns an empty text when there is none.
func (w *work) waiting() string {
	if w.current == nil {
		return ""
	}
	first, text := "", ""
	for _, f := range w.current.living {
		name := f.Machine.Name
		if why := whyNotReady(f.Machine); !f.Available && why != "" && (first == "" || name < first) {
			first, text = name, fmt.Sprintf("Machine %s is not Ready: %s", name, why)
		}
	}
	return text
}

// whyNotReady returns reason and message of a Machine's Ready condition that is not True.
func whyNotReady(m *v1alpha1.Machine) string {
	if _, ready := ReadySince(m); ready {
		return ""
	}
	for i := range m.Status.Conditions {
		switch c := &m.Status.Conditions[i]; {
		case c.Type != v1alpha1.ConditionReady:
		case c.Message == "":
			return c.Reason
		default:
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
