package machine

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// warn reports something about a Machine to people. It is called when something changes, never at each look.
func (r *Reconciler) warn(m *v1alpha1.Machine, reason, message string) {
	r.recorder.Eventf(m, nil, corev1.EventTypeWarning, reason, "Reconcile", "%s", message)
}
